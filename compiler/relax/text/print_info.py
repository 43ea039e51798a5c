"""StructInfo and dimensions as script text."""

from __future__ import annotations

import re

from compiler.errors import IRError
from compiler.ir.text import Names, quote, value_text
from compiler.ir.vdevice import as_vdevice
from compiler.relax import nodes as r
from compiler.tir.nodes import IntImm, PrimExpr
from compiler.tir.text.print_stmt import StmtPrinter

_INT64 = re.compile(r"T\.int64\((-?\d+)\)")


class InfoPrinter:
    """Prints StructInfo with the names of `names`. In signatures (`quoted`), dimensions stand as strings."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._exprs = StmtPrinter(names)

    def scalar(self, value: PrimExpr) -> str:
        """A scalar where its type matters."""
        return self._exprs.expr(value)

    def dim(self, value: PrimExpr, quoted: bool = False) -> str:
        """A dimension: int64, as all are."""
        if isinstance(value, IntImm):
            return str(value.value)
        found = _INT64.sub(r"\1", self._exprs.expr(value))
        return quote(found) if quoted else found

    def dims(self, values: tuple[PrimExpr, ...], quoted: bool = False) -> str:
        """Dimensions, separated by commas."""
        return ", ".join([self.dim(value, quoted) for value in values])

    def info(self, info: r.StructInfo, quoted: bool = False) -> str:
        """StructInfo as an annotation."""
        match info:
            case r.TensorStructInfo():
                return self._tensor(info, quoted)
            case r.ShapeStructInfo():
                if info.values is not None:
                    return f"R.Shape([{self.dims(info.values, quoted)}])"
                return "R.Shape" if info.ndim == -1 else f"R.Shape(ndim={info.ndim})"
            case r.PrimStructInfo():
                if info.value is None:
                    return f"R.Prim({quote(info.dtype)})"
                plain = info.dtype == "int64"
                value = self.dim(info.value, quoted) if plain else self.scalar(info.value)
                return f"R.Prim(value={value})"
            case r.TupleStructInfo():
                return f"R.Tuple({', '.join([self.info(item, quoted) for item in info.fields])})"
            case r.FuncStructInfo():
                ret = self.info(info.ret, quoted)
                if info.params is None:
                    own = "" if isinstance(info.ret, r.ObjectStructInfo) else f"ret={ret}, "
                    return f"R.Callable({own}purity={info.purity})"
                params = ", ".join([self.info(item, quoted) for item in info.params])
                return f"R.Callable(({params}{',' if len(info.params) == 1 else ''}), {ret}, {info.purity})"
            case r.ObjectStructInfo():
                return "R.Object"
        raise IRError(f"cannot print a {type(info).__name__}: there is no text for it")

    def _tensor(self, info: r.TensorStructInfo, quoted: bool) -> str:
        parts: list[str] = []
        if isinstance(info.shape, r.ShapeExpr):
            values = info.shape.values
            parts.append(f"({self.dims(values, quoted)}{',' if len(values) == 1 else ''})")
        elif info.shape is not None:
            parts.append(self._names.of(info.shape))  # type: ignore[arg-type]
        if info.dtype:
            parts.append(f"dtype={quote(info.dtype)}")
        else:
            parts.append('dtype=""')
        if info.vdevice is not None:
            parts.append(f"vdevice={vdevice_text(info.vdevice)}")
        if info.shape is None and info.ndim != -1:
            parts.append(f"ndim={info.ndim}")
        return f"R.Tensor({', '.join(parts)})"


def vdevice_text(device: r.VDevice) -> str:
    """A device as "kind:number:scope", where that says all."""
    short = repr(device)
    return quote(short) if as_vdevice(short) == device else value_text(device)
