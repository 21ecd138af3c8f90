"""Why a rule was, or was not, used at each size of a job."""
