"""How steps run on a device: precision, graph capture, lanes, and a network with its optimiser."""
