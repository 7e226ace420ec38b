"""The kinds of label noise, one file each: a subclass of `puridiver.streams.noise.Noise` with a name."""
