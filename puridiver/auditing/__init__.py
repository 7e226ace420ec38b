"""Which labels of a set look wrong: learners see it as a stream, then a noise model weighs what they say."""
