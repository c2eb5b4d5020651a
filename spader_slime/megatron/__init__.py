"""The trainer on Megatron-core."""

import warnings

# Without CUDA every import of Megatron-core remarks on each kernel library that is not there.
warnings.filterwarnings("ignore", module=r"megatron\.core")
warnings.filterwarnings("ignore", message=r".*(ShardedTensor|_state_dict` is deprecated)")
