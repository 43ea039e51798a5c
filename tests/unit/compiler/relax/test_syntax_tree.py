"""Graphs as trees of their nodes."""

from compiler.relax import op
from compiler.relax.nodes import Constant, TensorStructInfo, Tuple, Var, const
from compiler.relax.text.syntax_tree import dump_ast
from tunefarm.relax.testing import get_relax_matmul_module


def test_a_tree_names_classes_and_fields() -> None:
    x = Var("x", TensorStructInfo((2, 3)))  # type: ignore[arg-type]
    call = op.permute_dims(x, [1, 0])
    assert dump_ast(call, "  ", include_struct_info_annotations=False) == (
        "Call(\n"
        '  op=Op(name="relax.permute_dims"),\n'
        '  args=[Var(name_hint="x")],\n'
        "  attrs={\n"
        '    "axes": [\n'
        "      1,\n"
        "      0\n"
        "    ]\n"
        "  }\n"
        ")"
    )
    plain = dump_ast(call, include_struct_info_annotations=False, include_call_attrs=False)
    assert "attrs" not in plain
    assert "TensorStructInfo" in dump_ast(call)
    value = const(1.5)
    assert isinstance(value, Constant)
    assert dump_ast(value, include_struct_info_annotations=False) == "Constant(data=1.5)"
    assert dump_ast(Tuple(()), include_struct_info_annotations=False) == "Tuple(fields=[])"


def test_a_whole_function_is_shown() -> None:
    module = get_relax_matmul_module(
        (2, 3), (3, 3), "float32", bias_shape=(3,), activation=op.nn.relu, residual_bin_op=op.add
    )
    text = dump_ast(module["main"])
    for part in ("Function(", "DataflowBlock(", "DataflowVar(", 'name="relax.matmul"', "ret_struct_info=", "is_pure="):
        assert part in text
