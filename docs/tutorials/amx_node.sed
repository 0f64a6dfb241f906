# Edits of `halomesh plan --machine template` for a node of two Xeons of 56 cores each with AMX, in eight NUMA domains, on InfiniBand.
s|^title = .*|title = 64 nodes of 2 x 56 cores with AMX|
s|^cpu = .*|cpu = Intel(R) Xeon(R) Platinum 8480+|
s|^shape = .*|shape = 16x4x4|
s|^nodes = .*|nodes = 64 # published: the centre's page|
s|^cores = .*|cores = 112 # published: 2 x 56|
s|^ranks-per-node = .*|ranks-per-node = 8 # derived: one per NUMA domain (lscpu), of 14 cores|
s|^memory-gib = .*|memory-gib = 480 # derived: 512 GiB less the system|
s|^peak-gflops = .*|peak-gflops = 14336 # derived: 112 cores x 2 x 16 lanes x 2 x 2.0 GHz|
s|^peak-bf16-gflops = .*|peak-bf16-gflops = 229376 # derived: 112 cores x 1024 in the matrix unit x 2.0 GHz|
s|^kernel-efficiency = .*|kernel-efficiency = 0.35 # assumed: as on other Xeons|
s|^kernel-efficiency-bf16 = .*|kernel-efficiency-bf16 = 0.04 # assumed: what is not a product decides, so that a step takes half as long as in fp32|
s|^triad-gbs = .*|triad-gbs = 490 # derived: 80 % of 16 channels x 38.4 GB/s|
s|^message-gbs = .*|message-gbs = 20 # assumed: one rank does not fill the port|
s|^injection-gbs = .*|injection-gbs = 48 # derived: NDR, 50 GB/s x 96 %|
s|^link-gbs = .*|link-gbs = 48 # derived: NDR, 50 GB/s x 96 %|
