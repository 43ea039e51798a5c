"""Building graphs: every value that is emitted gets a name, and what is known of it is found at once.

    bb = BlockBuilder()
    x = Var("x", TensorStructInfo((n, 4), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(op.add(x, x))
            z = bb.emit_output(op.nn.relu(y))
        bb.emit_func_output(z)
    mod = bb.get()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from compiler.arith.analyzer import Analyzer
from compiler.errors import IRError
from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.structural import structural_equal, structural_hash
from compiler.relax import nodes as r
from compiler.relax.block_scopes import DataflowScope, FunctionFrame, FunctionScope, NameScope, OpenBlock, TestingScope
from compiler.relax.names import FreshNames
from compiler.relax.nodes.symbols import symbols_in
from compiler.relax.normalize import Normalizer, merged
from compiler.relax.op.execution.calls import call_tir, call_tir_with_grad
from compiler.relax.struct_info.erase import erase
from compiler.relax.struct_info.signature import prim_func_info
from compiler.relax.te_calls import TeKernel, make_kernel
from compiler.te.where import at, caller_span, here
from compiler.tir import nodes as n


class BlockBuilder:
    """Builds the functions of a module. Values are brought into normal form as they are emitted."""

    _stack: ClassVar[list[BlockBuilder]] = []

    def __init__(self, mod: IRModule | None = None) -> None:
        """A builder that adds to `mod`, which is itself left as it is."""
        self._functions: dict[GlobalVar, BaseFunc] = dict(mod.functions) if mod is not None else {}
        self._attrs: dict[str, Any] = dict(mod.attrs) if mod is not None else {}
        self._global_infos = mod.global_infos if mod is not None else {}
        self._global_names = FreshNames()
        for gvar in self._functions:
            self._global_names.take(gvar.name_hint)
        self._by_hash: dict[type[BaseFunc], dict[int, list[GlobalVar]]] = {}
        self._scopes: list[NameScope] = []
        self._blocks: list[OpenBlock] = []
        self._frames: list[FunctionFrame] = []
        self._values: dict[r.Var, RelaxExpr] = {}
        self.analyzer = Analyzer()
        self._normalizer = Normalizer(self)

    @staticmethod
    def current() -> BlockBuilder | None:
        """The builder whose function is being built, innermost first; None outside of any."""
        return BlockBuilder._stack[-1] if BlockBuilder._stack else None

    # ---------------------------------------------------------------------------- functions

    def function(
        self, name: str, params: r.Var | r.Tuple | Sequence[r.Var] | None = None,
        attrs: Mapping[str, Any] | None = None, pure: bool = True, private: bool = False,
    ) -> FunctionScope:  # fmt: skip
        """The function `name` of `params`, to be built in a `with` block that ends with `emit_func_output`.

        `private` functions have no global symbol: nothing outside the module calls them.
        """
        own = None if params is None else [params] if isinstance(params, r.Var) else list(params)
        for param in own or ():
            if not isinstance(param, r.Var):
                raise IRError(f"a parameter of {name} is {param!r} ({type(param).__name__}), no relax.Var{here()}")
            if param.struct_info_ is None:
                raise IRError(f"the parameter {param.name_hint} of {name} has no StructInfo{here()}")
        return FunctionScope(self, name, own, dict(attrs or {}), pure, private)  # type: ignore[arg-type]

    def testing_scope(self, def_vars: Sequence[n.Var]) -> TestingScope:
        """A scope in which the dimensions `def_vars` are known, to try things in."""
        return TestingScope(self, def_vars)

    def dataflow(self) -> DataflowScope:
        """A dataflow block of the function that is being built."""
        return DataflowScope(self)

    def _enter_function(self, frame: FunctionFrame) -> None:
        if frame.name in self._global_names and GlobalVar(frame.name) in self._functions:
            raise IRError(f"the module already has a function {frame.name!r}{here()}")
        BlockBuilder._stack.append(self)
        self._frames.append(frame)
        self.begin_scope(frame.params or [])
        self._begin_binding_block()

    def _leave_function(self, frame: FunctionFrame, *, failed: bool) -> None:
        self._frames.pop()
        BlockBuilder._stack.pop()
        if failed:  # whatever was open belongs to it
            self._blocks.clear()
            self._scopes.clear()
            return
        if not frame.done:
            self._end_block()
            self.end_scope()
            raise RuntimeError(f"emit_func_output must be called in the function {frame.name!r}{here()}")

    def _next_block(self, dataflow: bool) -> None:
        """End the current block of the function and begin another."""
        if not self._blocks:
            raise IRError(f"a dataflow block outside of a function{here()}", hint="put it in `with bb.function(...)`")
        if dataflow and self._blocks[-1].dataflow:
            raise IRError(f"a dataflow block inside of a dataflow block{here()}")
        done = self._end_block()
        if done.bindings and self._frames:
            self._frames[-1].blocks.append(done)
        (self._begin_dataflow_block if dataflow else self._begin_binding_block)()

    def emit_func_output(
        self, output: Any, params: r.Var | r.Tuple | Sequence[r.Var] | None = None
    ) -> GlobalVar:
        """End the function: it returns `output`, an expression or a tuple or list of them. Returns its name.

        `params` may be given here, if they were not before.
        """
        if not self._frames:
            raise IRError(f"emit_func_output outside of a function{here()}")
        frame = self._frames[-1]
        if frame.done:
            raise IRError(f"the function {frame.name!r} already has an output{here()}")
        if self.current_block_is_dataflow():
            raise IRError(f"emit_func_output inside of a dataflow block{here()}")
        if params is not None:
            if frame.params is not None:
                raise RuntimeError(f"the parameters of {frame.name!r} are given twice{here()}")
            frame.params = [params] if isinstance(params, r.Var) else list(params)  # type: ignore[arg-type]
        if frame.params is None:
            raise RuntimeError(f"the parameters of {frame.name!r} are given nowhere{here()}")
        body = self._normalizer.argument(_output(output))
        last = self._end_block()
        if last.bindings:
            frame.blocks.append(last)
        seq = r.SeqExpr(merged(frame.blocks), body)
        info = r.info_of(body)
        assert info is not None
        ret = self._result_info(info, frame.params)
        r.set_struct_info(seq, ret)
        attrs = frame.attrs if frame.private or "global_symbol" in frame.attrs else {
            "global_symbol": frame.name, **frame.attrs
        }  # fmt: skip
        func = r.Function(frame.params, seq, ret, frame.pure, attrs)
        self.end_scope()
        frame.done = True
        return self._insert(frame.name, func)

    def _result_info(self, info: r.StructInfo, params: Sequence[r.Var]) -> r.StructInfo:
        """Return what a function returns, in terms of the dimensions that its parameters name."""
        known = {var for param in params for var in symbols_in(param.struct_info)}
        known |= self._scopes[-2].symbols if len(self._scopes) > 1 else set()
        held = set(params)
        return erase(info, lambda var: var if var in known else None, lambda var: var if var in held else None)

    def normal_function(self, func: r.Function) -> r.Function:
        """A function with its body in normal form."""
        if func.body is None:
            return func
        self.begin_scope(func.params)
        try:
            body = self._normalizer.sequence(func.body)
            info = r.info_of(body.body)
            assert info is not None
            if body.struct_info_ is None:
                r.set_struct_info(body, self._result_info(info, func.params))
        finally:
            self.end_scope()
        if body is func.body:
            return func
        return r.Function(func.params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)

    # -------------------------------------------------------------------------------- module

    def get(self) -> IRModule:
        """The module built so far."""
        return IRModule(self._functions, self._attrs, self._global_infos)

    def finalize(self) -> IRModule:
        """The module, when all is built."""
        return self.get()

    def add_func(self, func: BaseFunc, func_name: str) -> GlobalVar:
        """Add a function, or find one of the same structure. Returns its name, `func_name` or one like it."""
        table = self._hashes(type(func))
        key = structural_hash(func)
        for gvar in table.get(key, ()):
            if structural_equal(self._functions[gvar], func):
                return gvar
        gvar = self._insert(self._global_names.unique(func_name), func)
        table.setdefault(key, []).append(gvar)
        return gvar

    def _hashes(self, kind: type[BaseFunc]) -> dict[int, list[GlobalVar]]:
        """The functions of a class by their hashes.
        To hash kernels takes long, and passes often add only others."""
        table = self._by_hash.get(kind)
        if table is None:
            table = self._by_hash[kind] = {}
            for gvar, func in self._functions.items():
                if type(func) is kind:
                    table.setdefault(structural_hash(func), []).append(gvar)
        return table

    def _insert(self, name: str, func: BaseFunc) -> GlobalVar:
        self._global_names.take(name)
        gvar = GlobalVar(name)
        info = function_info(func)
        if info is not None:
            r.set_struct_info(gvar, info)
        self._functions.pop(gvar, None)  # so that the key is this object, with its StructInfo
        self._functions[gvar] = func
        return gvar

    def update_func(self, gv: GlobalVar, updated_func: BaseFunc) -> None:
        """Put `updated_func` in the place of the function `gv`. Raises IRError when there is none."""
        if gv not in self._functions:
            raise IRError(f"the module has no function {gv.name_hint!r}{here()}")
        self._functions[gv] = updated_func
        self._by_hash.clear()

    def info_of_function(self, gvar: GlobalVar) -> r.StructInfo | None:
        """Return what is known of a function: from the module, else from its name."""
        func = self._functions.get(gvar)
        known = None if func is None else function_info(func)
        return r.info_of(gvar) if known is None else known

    def take_name(self, name: str) -> None:
        """Reserve a name: no function added from now on gets it."""
        self._global_names.take(name)

    def get_unique_name(self, name_prefix: str) -> str:
        """A name that no function of the module, and no variable of the current function, has."""
        names = self._scopes[-1].names if self._scopes else self._global_names
        found = names.unique(name_prefix)
        self._global_names.take(found)
        return found

    # -------------------------------------------------------------------------------- values

    def emit(self, expr: Any, name_hint: str = "") -> r.Var:
        """Bind `expr` to a new variable, called `name_hint` or lv (gv outside of dataflow blocks), lv1, ..."""
        block = self._open_block("emit")
        return self._bind(self._normalizer.value(r.convert_to_expr(expr)), name_hint, block.dataflow)

    def emit_output(self, output: Any, name_hint: str = "") -> r.Var:
        """Bind `output`, an expression, tuple or list of them, to a variable seen outside its dataflow block."""
        if not self._open_block("emit_output").dataflow:
            raise IRError(f"emit_output outside of a dataflow block{here()}", hint="use emit")
        return self._bind(self._normalizer.value(_output(output)), name_hint, False)

    def _bind(self, value: RelaxExpr, name_hint: str, inner: bool) -> r.Var:
        info = r.info_of(value)
        if info is None:
            raise IRError(f"nothing is known of {r.describe(value)}{here()}")
        name = self._scopes[-1].names.unique(name_hint or ("lv" if inner else "gv"))
        var = (r.DataflowVar if inner else r.Var)(name, info)
        self.emit_normalized(r.VarBinding(var, value, getattr(value, "span", None)))
        return var

    def match_cast(self, value: Any, struct_info: r.StructInfo, name_hint: str = "") -> r.Var:
        """Bind `value`. The program checks at run time that it fits `struct_info`.

        Dimensions that `struct_info` is the first to name are known from here on. Raises IRError where no value
        can fit.
        """
        block = self._open_block("match_cast")
        normal = self._normalizer.argument(r.convert_to_expr(value))
        info = r.info_of(normal)
        if info is None:
            raise IRError(f"nothing is known of {r.describe(normal)}{here()}")
        if struct_info.check(info, self.analyzer) is r.BaseCheckResult.FAIL_L0:
            raise IRError(f"match_cast: {r.describe(normal)} is {info}, which is never {struct_info}{here()}")
        name = self._scopes[-1].names.unique(name_hint or ("lv" if block.dataflow else "gv"))
        var = (r.DataflowVar if block.dataflow else r.Var)(name, struct_info)
        self.emit_normalized(r.MatchCast(var, normal, struct_info, caller_span()))
        return var

    def emit_normalized(self, binding: r.Binding) -> None:
        """Add a binding whose value is in normal form."""
        block = self._open_block("emit_normalized")
        if block.dataflow is False and isinstance(binding.var, r.DataflowVar):
            raise IRError(f"the dataflow variable {binding.var.name_hint} is bound outside of a dataflow block{here()}")
        block.bindings.append(binding)
        self._scopes[-1].names.take(binding.var.name_hint)
        self._values[binding.var] = binding.value
        if isinstance(binding, r.MatchCast):
            self._scopes[-1].symbols.update(symbols_in(binding.struct_info))

    def normalize(self, expr: Any) -> Any:
        """`expr` in normal form; what is nested in it is bound in the current block."""
        return self._normalizer.normal(r.convert_to_expr(expr))

    def normalize_argument(self, expr: Any) -> Any:
        """`expr` as an argument of a call: a leaf, or the variable that it is bound to in the current block."""
        return self._normalizer.argument(r.convert_to_expr(expr))

    def normalize_value(self, expr: Any) -> Any:
        """Return `expr` in normal form, as the value of a binding.
        What a sequence in it binds is bound in the current block."""
        return self._normalizer.value(r.convert_to_expr(expr))

    def lookup_binding(self, var: r.Var) -> RelaxExpr | None:
        """The value that `var` is bound to; None for parameters."""
        return self._values.get(var)

    # ------------------------------------------------------------------------------------ te

    def call_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> r.Call:
        """The call of a kernel that computes `func(*args, **kwargs)`, which is added to the module.

        `func` gets te tensors for expressions, scalars for scalar expressions, lists for tuples and shapes.
        `primfunc_name_hint` names the kernel, `primfunc_attrs` are its attributes.
        """
        kernel, gvar = self._kernel(func, args, kwargs)
        return call_tir(gvar, kernel.args, _infos(kernel), kernel.tir_vars or None)

    def emit_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> r.Var:
        """Emit `call_te(func, *args, **kwargs)`."""
        return self.emit(self.call_te(func, *args, **kwargs))

    def call_te_with_grad(
        self, func: Callable[..., Any], *args: Any, te_grad_name: str, te_grad_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> r.Call:  # fmt: skip
        """Make the call of `call_te` with the name of the te function that computes its gradient."""
        kernel, gvar = self._kernel(func, args, kwargs)
        return call_tir_with_grad(
            gvar, kernel.args, _infos(kernel), te_grad_name, te_grad_kwargs, kernel.tir_vars or None
        )

    def emit_te_with_grad(
        self, func: Callable[..., Any], *args: Any, te_grad_name: str, te_grad_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> r.Var:  # fmt: skip
        """Emit `call_te_with_grad(...)`."""
        return self.emit(
            self.call_te_with_grad(func, *args, te_grad_name=te_grad_name, te_grad_kwargs=te_grad_kwargs, **kwargs)
        )

    def _kernel(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[TeKernel, GlobalVar]:
        options = dict(kwargs)
        name = options.pop("primfunc_name_hint", None) or getattr(func, "__name__", "te_func")
        attrs = options.pop("primfunc_attrs", None)
        plain = [self._te_argument(arg) for arg in args]
        named = {key: self._te_argument(value) for key, value in options.items()}
        kernel = make_kernel(func, plain, named, "lambda_" if name == "<lambda>" else name, attrs)
        return kernel, self.add_func(kernel.func, "te_func" if name == "<lambda>" else name)

    def _te_argument(self, value: Any) -> Any:
        if isinstance(value, RelaxExpr):
            return self._normalizer.argument(value)
        if isinstance(value, list | tuple):
            return type(value)([self._te_argument(item) for item in value])
        return value

    # ------------------------------------------------------------------------ blocks and scopes

    def begin_scope(self, params: Sequence[r.Var] | None = None) -> None:
        """Enter a scope. With `params` it is a function's; else one inside of the current scope."""
        outer = self._scopes[-1] if self._scopes else None
        symbols = set() if outer is None else set(outer.symbols)
        if params is None and outer is not None:
            self._scopes.append(NameScope(outer.names, symbols))
            return
        names = FreshNames(self._global_names)
        for param in params or ():
            names.take(param.name_hint)
            if param.struct_info_ is not None:
                symbols.update(symbols_in(param.struct_info_))
        self._scopes.append(NameScope(names, symbols))

    def end_scope(self) -> None:
        """Leave the scope."""
        self._scopes.pop()

    @property
    def symbols(self) -> frozenset[n.Var]:
        """The dimensions known in the current scope."""
        return frozenset(self._scopes[-1].symbols) if self._scopes else frozenset()

    @property
    def in_block(self) -> bool:
        """Whether there is a block to emit into."""
        return bool(self._blocks)

    def current_block_is_dataflow(self) -> bool:
        """Whether values are emitted into a dataflow block."""
        return bool(self._blocks) and self._blocks[-1].dataflow

    def _begin_binding_block(self) -> None:
        self._blocks.append(OpenBlock(dataflow=False))

    def _begin_dataflow_block(self) -> None:
        self._blocks.append(OpenBlock(dataflow=True))

    def _end_block(self) -> r.BindingBlock:
        block = self._blocks.pop()
        return (r.DataflowBlock if block.dataflow else r.BindingBlock)(tuple(block.bindings))

    def _open_block(self, what: str) -> OpenBlock:
        if not self._blocks:
            raise IRError(f"{what} outside of a function{here()}", hint="put it in `with bb.function(...)`")
        return self._blocks[-1]

    def emitted(self, expr: RelaxExpr) -> r.Var | None:
        """The variable that stands for a nested expression in the current block."""
        held = self._blocks[-1].emitted.get(id(expr)) if self._blocks else None
        return None if held is None else held[1]

    def emit_argument(self, expr: RelaxExpr, normal: RelaxExpr) -> r.Var:
        """Bind a nested expression, given as it was and in normal form."""
        if not self._blocks:
            raise IRError(
                f"{r.describe(normal)} is an argument, and no block is there to bind it"
                f"{at(getattr(expr, 'span', None))}",
                hint="emit it first, or normalise it inside of a function",
            )
        var = self._bind(normal, "", self._blocks[-1].dataflow)
        self._blocks[-1].emitted[id(expr)] = expr, var
        return var


def function_info(func: BaseFunc) -> r.StructInfo | None:
    """Return what is known of a function, as those who call it need it."""
    return prim_func_info(func) if isinstance(func, n.PrimFunc) else getattr(func, "struct_info_", None)


def _output(output: Any) -> Any:
    return r.Tuple(tuple(map(_output, output))) if isinstance(output, list | tuple) else r.convert_to_expr(output)


def _infos(kernel: TeKernel) -> Any:
    return list(kernel.outputs) if kernel.several else kernel.outputs[0]
