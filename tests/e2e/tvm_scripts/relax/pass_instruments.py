"""Instruments of passes, as TVM's how-to shows them."""
import tvm
import tvm.relax as relax
from tvm.ir.instrument import PassTimingInstrument, pass_instrument
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Mod:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            y = R.add(x, x)
            z = R.nn.relu(y)
            R.output(z)
        return z


@tvm.instrument.pass_instrument
class Printer:
    def enter_pass_ctx(self):
        print("enter")

    def exit_pass_ctx(self):
        print("exit")

    def should_run(self, mod, info):
        return info.name != "FoldConstant"

    def run_before_pass(self, mod, info):
        print("before", info.name, len(mod.functions))

    def run_after_pass(self, mod, info):
        print("after", info.name, len(mod.functions))


timing = PassTimingInstrument()
with tvm.transform.PassContext(opt_level=3, instruments=[Printer(), timing]):
    m = relax.transform.LegalizeOps()(Mod)
    m = relax.transform.FoldConstant()(m)
    m = tvm.transform.Sequential([relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps()], name="two")(m)
    text = timing.render()
print([line.split(":")[0].strip() for line in text.splitlines()][:4])


@pass_instrument
class Failing:
    def run_before_pass(self, mod, info):
        raise RuntimeError("no " + info.name)


try:
    with tvm.transform.PassContext(instruments=[Failing()]):
        relax.transform.LegalizeOps()(Mod)
except RuntimeError as error:
    print(str(error).splitlines()[-1][-20:])

cur = tvm.transform.PassContext.current()
print(cur.opt_level, cur.instruments is None or len(cur.instruments))
with tvm.transform.PassContext(instruments=[timing]) as ctx:
    ctx.override_instruments([])
    print(len(ctx.instruments))


@tvm.transform.module_pass(opt_level=2, name="nothing")
def nothing(mod, ctx):
    print("run", ctx.opt_level)
    return mod


print(nothing.info.name, nothing.info.opt_level, list(nothing.info.required))
with tvm.transform.PassContext(opt_level=1):
    nothing(Mod)
    tvm.transform.Sequential([nothing])(Mod)
with tvm.transform.PassContext(opt_level=1, required_pass=["nothing"]):
    tvm.transform.Sequential([nothing])(Mod)
with tvm.transform.PassContext(opt_level=3, disabled_pass=["nothing"]):
    tvm.transform.Sequential([nothing])(Mod)
try:
    tvm.transform.PassContext(config={"no.such": 1})
except AttributeError:
    print("no such option")
