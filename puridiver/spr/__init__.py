"""What SPR's sampler and trainer share (Kim et al., ICCV 2021): networks that learn from images alone, and its filter.

Neither the samplers nor the trainers may know the other family, so these parts lie below both.
"""

from puridiver.spr.cleanness import clean_probability
from puridiver.spr.simclr import ENCODER_OPTIONS, Encoder, nt_xent, scaled_epochs

__all__ = ["ENCODER_OPTIONS", "Encoder", "clean_probability", "nt_xent", "scaled_epochs"]
