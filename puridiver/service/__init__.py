"""The service: a learner behind HTTP that loses nothing it has acknowledged."""
