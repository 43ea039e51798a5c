"""Documents of the printer, written as Python text: every kind, operators in one another, comments, underlines."""

import itertools

from tvm.runtime import ObjectPath
from tvm.script.printer import doc as D
from tvm.script.printer.doc_printer import to_python_script


def show(doc, **options):
    print(to_python_script(doc, **options))
    print("--")


K = D.OperationKind
I = D.IdDoc
L = D.LiteralDoc
one = D.ReturnDoc(L(1))


def op(kind, *operands):
    return D.OperationDoc(kind, list(operands))


for value in [None, "x", 'a"b', "a\n\t\\", True, 1, -2, 1.5, 1e30, 1e-9, float("inf"), float("nan"), 3.0]:
    show(L(value))

x = I("x")
show(x.attr("y").attr("z").call(I("a"), L(1), k=L("s")))
show(D.IndexDoc(x, []))
for given in [(), (1,), (None, 2), (1, 2), (1, None, 3), (None, None, 3), (1, 2, 3)]:
    show(x[D.SliceDoc(*(None if v is None else L(v) for v in given)), L(0)])

binary = [K.Add, K.Mult, K.Pow, K.LShift, K.BitAnd, K.BitOr, K.Lt, K.And, K.Or]
unary = [K.USub, K.Invert, K.Not]
for outer, inner in itertools.product(binary, binary):
    left, right = op(inner, I("a"), I("b")), op(inner, I("b"), I("c"))
    print(to_python_script(op(outer, left, I("c"))), "|", to_python_script(op(outer, I("a"), right)))
for outer, inner in itertools.product(unary, binary):
    signed = op(inner, op(outer, I("a")), op(outer, I("b")))
    print(to_python_script(op(outer, op(inner, I("a"), I("b")))), "|", to_python_script(signed))
chosen = op(K.IfThenElse, I("a"), I("b"), I("c"))
called = D.LambdaDoc([x], x)
for doc in [op(K.IfThenElse, chosen, I("d"), chosen), op(K.IfThenElse, I("p"), called, x), op(K.Add, chosen, x)]:
    show(doc)
for doc in [op(K.Add, x, x).call(x), op(K.Add, x, x).attr("y"), op(K.Add, x, x)[x], called.call(I("y"))]:
    show(doc)
for doc in [D.TupleDoc([]), D.TupleDoc([x]), D.ListDoc([x, L(1)]), D.DictDoc({}), D.DictDoc({L("a"): L(1), x: x})]:
    show(doc)

pair = D.TupleDoc([x, I("y")])
show(D.AssignDoc(x, I("y"), I("int")))
show(D.AssignDoc(x, None, I("int")))
show(D.AssignDoc(D.TupleDoc([x, pair]), pair))
show(D.IfDoc(I("p"), [], [D.IfDoc(I("q"), [one], [one])]))
show(D.WhileDoc(I("p"), []))
show(D.ForDoc(pair, I("y").call(L(1)), [one, one]))
show(D.ScopeDoc(x, I("y"), [D.AssertDoc(I("t"), L("m"))]))
show(D.ScopeDoc(None, I("y"), []))
show(D.StmtBlockDoc([D.CommentDoc("a\nb"), D.DocStringDoc("a\nb"), one]))
args = [D.AssignDoc(x, None, I("T")), D.AssignDoc(I("y"), L(1), I("int"))]
func = D.FunctionDoc(I("f"), args, [I("deco"), I("b").call(L(1))], I("int"), [one])
show(D.ClassDoc(I("C"), [I("deco")], [func, D.AssignDoc(I("z"), L(1))]))


def noted(doc, comment):
    doc.comment = comment
    return doc


for doc in [
    D.AssignDoc(x, x),
    D.IfDoc(x, [one], []),
    D.WhileDoc(x, [one]),
    D.FunctionDoc(I("f"), [], [I("d")], None, []),
    D.ClassDoc(I("C"), [], [one]),
]:
    show(noted(doc, "note"))
try:
    to_python_script(noted(D.ReturnDoc(L(1)), "a\nb"))
except ValueError:
    print("a comment of one line")
for make in [lambda: D.IfDoc(x, [], []), lambda: D.AssignDoc(x, None)]:
    try:
        make()
    except ValueError:
        print("not enough")

show(D.StmtBlockDoc([D.ExprStmtDoc(I(f"l{i}")) for i in range(12)]), print_line_numbers=True)
show(D.WhileDoc(x, [D.IfDoc(x, [one], [])]), indent_spaces=2, print_line_numbers=True)

root = ObjectPath.root()
lines = []
for i in range(7):
    name = I(f"foo{i}")
    name.source_paths = [root.attr(f"a{i}")]
    lines.append(D.ExprStmtDoc(name))
block = D.StmtBlockDoc(lines)
show(block, path_to_underline=[root.attr("a3")])
show(block, path_to_underline=[root.attr("a3").attr("deep")], num_context_lines=1)
show(block, path_to_underline=[root.attr("a0"), root.attr("a6")], num_context_lines=0)
show(block, path_to_underline=[root.attr("a0"), root.attr("a6")], num_context_lines=2, print_line_numbers=True)
show(block, path_to_underline=[root.attr("other")])
total = op(K.Add, I("aaa"), I("bbb"))
total.operands[1].source_paths = [root.attr("b")]
total.source_paths = [root.attr("sum")]
stmt = D.AssignDoc(I("y"), total)
stmt.source_paths = [root]
for asked in [[root.attr("b")], [root.attr("sum")], [root.attr("sum"), root.attr("b")], [root], [root.attr("q")]]:
    show(stmt, path_to_underline=asked)
