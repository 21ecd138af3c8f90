from .lines import Measured as Measured
from .lines import hops as hops
from .prediction import Prediction as Prediction
from .prediction import predict as predict
from .session import predicted as predicted
from .session import scale_models as scale_models
