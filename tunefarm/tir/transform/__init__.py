"""Passes over TensorIR functions."""

from typing import TYPE_CHECKING

from compiler.driver.tir_passes import PrimFuncPass as PrimFuncPass
from compiler.driver.tir_passes import SplitHostDevice as SplitHostDevice
from compiler.driver.tir_passes import ThreadSync as ThreadSync
from compiler.driver.tir_passes import module_pass as module_pass
from compiler.driver.tir_passes import prim_func_pass as prim_func_pass
from tunefarm.compatibility import refusing
from tunefarm.tir.transform import function_pass as function_pass
from tunefarm.tir.transform import transform as transform
from tunefarm.tir.transform.transform import *  # noqa: F403

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
