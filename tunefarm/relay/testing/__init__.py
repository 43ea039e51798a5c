"""Small networks written in Relay."""

from compiler.faces.relay.testing.init import create_workload
from tunefarm.relay.testing import dcgan, densenet, init, mlp, mobilenet, resnet, squeezenet, vgg

__all__ = ["create_workload", "dcgan", "densenet", "init", "mlp", "mobilenet", "resnet", "squeezenet", "vgg"]
