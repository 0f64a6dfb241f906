# SPDX-License-Identifier: Apache-2.0
"""CosmoFlow submissions to MLPerf HPC v0.7, from the logs that their ten runs published."""
from typing import NamedTuple


class Published(NamedTuple):
    """Medians over runs and over all epochs but each run's first. Times in seconds."""

    name: str
    division: str
    system: str
    workers: int
    parts: int
    batch: int
    epochs: float  # to the target
    least_epochs: int
    most_epochs: int
    staging: float  # 0: not staged
    training: float  # of an epoch, as the two below
    evaluation: float
    period: float  # until the next one starts
    minutes: float  # olympic mean of the time to solution

    def training_rate(self):
        return 262144 / self.training

    def evaluation_rate(self):
        return 65536 / self.evaluation


# Source: the files result_*.txt of github.com/mlcommons/hpc_results_v0.7, benchmark cosmoflow.
RUNS = [Published(*row) for row in (
    ("Fugaku 512", "closed", "512 A64FX", 512, 1, 512, 102.5, 85, 120, 89.5, 127.24, 17.56, 144.80, 249.35),
    ("Fugaku 8192", "closed", "8192 A64FX", 8192, 16, 512, 92.5, 73, 118, 219.3, 48.00, 14.68, 62.95, 101.49),
    ("Fugaku 16384", "open", "16384 A64FX", 16384, 4, 4096, 158, 152, 163, 53.1, 7.71, 2.65, 10.41, 30.07),
    ("ABCI 512", "closed", "512 V100", 512, 1, 512, 98.5, 80, 120, 45.8, 18.33, 0.84, 19.90, 34.42),
    ("ABCI 2048", "open", "2048 V100", 2048, 1, 2048, 99.5, 92, 106, 12.1, 5.02, 0.21, 7.64, 13.21),
    ("Cori-KNL 512", "closed", "512 KNL", 512, 1, 512, 110.5, 92, 151, 0, 247.41, 28.18, 279.31, 536.06),
    ("Cori-KNL 1024", "open", "1024 KNL", 1024, 1, 1024, 162, 133, 225, 0, 135.03, 14.20, 152.27, 419.69),
    ("Piz Daint 128", "closed", "128 P100", 128, 1, 256, 70, 64, 75, 0, 343.74, 28.56, 378.98, 461.01),
    ("Piz Daint 256", "closed", "256 P100", 256, 1, 512, 104, 94, 160, 0, 164.63, 5.31, 170.62, 327.01),
    ("Cori-GPU 64", "closed", "64 V100", 64, 1, 64, 52.5, 47, 69, 978.6, 332.52, 47.31, 386.29, 364.73),
    ("HAL 64", "closed", "64 V100", 64, 1, 64, 54.5, 44, 67, 0, 247.24, 34.19, 286.07, 265.59),
    ("Frontera 64", "closed", "64 RTX 5000", 64, 1, 64, 48.5, 41, 61, 0, 590.51, 97.35, 696.08, 602.23),
)]
