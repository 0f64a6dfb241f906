# SPDX-License-Identifier: Apache-2.0
# Builds for other machines and libraries than this one's, and their tests on this machine: MPICH,
# A64FX by emulation, Xeon Phi, oneDNN 3. Included by the Makefile.

##@ Other machines and libraries

# The tests that depend on MPI or HDF5, with the other MPI and the other HDF5 at once. MPICH's
# waiting ranks never yield, so only some of the mpi tests run here; `make test MPI=mpich` runs all.
.PHONY: test-mpich run-tests-mpich
MPICH := MPI=mpich HDF5=parallel
test-mpich: ## build with MPICH and its parallel HDF5; run the runtime tests and some mpi tests
	@+$(MAKE) --no-print-directory $(MPICH) deps
	@+$(MAKE) --no-print-directory $(MPICH) all $(addprefix build/$(BUILD)-mpich-phdf5/tests/,runtime_tests mpi_tests)
	@+$(MAKE) --no-print-directory $(MPICH) run-tests RUN=runtime_tests
	@+$(MAKE) --no-print-directory $(MPICH) run-tests-mpich
run-tests-mpich: export OMP_NUM_THREADS = 1
run-tests-mpich:
	$(MPIRUN) -bind-to none -n 6 $(B)/tests/mpi_tests --test-case-exclude='*[* ranks]*' \
	  --source-file='*exchange_test*,*checkpoint_test*,*gradient_reducer_test*'
	$(MPIRUN) -bind-to none -n 2 $(B)/tests/mpi_tests --test-case='*[2 ranks]*'

# If build/ lacks them, these targets fetch Debian packages into a directory there, which needs a
# mirror once (DEBIAN_MIRROR). No package of this machine changes.
.PHONY: sysroot-arm64 sysroot-onednn3
ARM64_ROOT := $(CURDIR)/build/sysroot-arm64
# The release is this machine's, whose protoc and mpirun serve for both.
DEBIAN_RELEASE ?= $(shell . /etc/os-release 2>/dev/null; [ "$$ID" = debian ] && echo $$VERSION_CODENAME || echo bookworm)
sysroot-arm64: ## fetch the libraries for a64fx into build/ (150 MB once)
	@test/harness/package_sysroot.sh $(ARM64_ROOT) arm64 $(DEBIAN_RELEASE) libdnnl-dev libopenmpi-dev \
	  libhdf5-openmpi-dev libboost-program-options-dev libfftw3-dev libeigen3-dev libprotobuf-dev libhwloc-dev \
	  libisal-dev zlib1g-dev libfmt-dev doctest-dev nlohmann-json3-dev

# The parallel HDF5 brings the flags of its MPI along, so no MPI wrapper is needed. A fixed vector
# length lets the compiler keep vectors (src/nn/kernels/lanes.hpp) in registers.
.PHONY: a64fx test-a64fx
A64FX_CXX  ?= aarch64-linux-gnu-g++
A64FX_ARCH ?= -mcpu=a64fx -msve-vector-bits=512
A64FX_CXX_HERE = $(A64FX_CXX) --sysroot=$(ARM64_ROOT)
ARM64_LIB  := $(ARM64_ROOT)/usr/lib/aarch64-linux-gnu
A64FX = PKG_CONFIG_SYSROOT_DIR=$(ARM64_ROOT) PKG_CONFIG_LIBDIR=$(ARM64_LIB)/pkgconfig \
  $(MAKE) --no-print-directory B=build/a64fx MPI=openmpi HDF5=parallel ARCH='$(A64FX_ARCH)' \
  CXX='$(A64FX_CXX_HERE)' MPICXX='$(A64FX_CXX_HERE)' EIGEN_CFLAGS='-isystem $(ARM64_ROOT)/usr/include/eigen3' NIFTI_LIBS=
a64fx: sysroot-arm64 ## cross-build the program for A64FX into build/a64fx
	@test/harness/install_dependencies.sh --a64fx
	@+$(A64FX) build/a64fx/halomesh
test-a64fx: sysroot-arm64 ## run partition, layer and 2-rank training tests under qemu; SHORT=1: a subset
	@test/harness/install_dependencies.sh --a64fx
	@+$(MAKE) --no-print-directory deps
	@+$(A64FX) $(addprefix build/a64fx/tests/,partition_tests nn_tests mpi_tests)
	@+$(MAKE) --no-print-directory $(B)/tests/mpi_tests
	@MPIRUN='$(MPIRUN)' test/harness/a64fx_tests.sh $(ARM64_ROOT) build/a64fx/tests $(B)/tests $(SHORT)

# Emulation can measure instructions, but not time.
.PHONY: a64fx-counts
a64fx-counts: sysroot-arm64 ## count the instructions of sparse and dense gradients for A64FX under qemu
	@test/harness/install_dependencies.sh --a64fx --counts
	@+$(A64FX) build/a64fx/tests/gradient_work
	$(Q)$(CC) -O2 -shared -fPIC test/emulation/instruction_counts.c -o build/a64fx/tests/instruction_counts.so
	@test/emulation/gradient_counts.sh $(ARM64_ROOT) build/a64fx/tests

# A program for any x86-64 CPU, which chooses its kernels at run time. GCC's warnings about vectors
# without registers of their size depend on the CPU, hence the objects for AVX2.
.PHONY: test-isa lane-objects
lane-objects: $(call objects,$(shell grep -ls 'lanes.hpp' $(NN)))
ISA_TEST_BUILD := $(MAKE) --no-print-directory B=build/isa ARCH=-march=x86-64
test-isa: deps ## build for any x86-64; look for stray AVX instructions; run it on emulated CPUs without AVX-512
	@test/harness/install_dependencies.sh --a64fx
	@+$(ISA_TEST_BUILD) build/isa/halomesh
	@test/harness/isa_check.sh build/isa
	@+$(MAKE) --no-print-directory B=build/isa-v3 ARCH=-march=x86-64-v3 lane-objects
	@test/emulation/isa_tests.sh build/isa/halomesh

# Xeon Phi (Knights Landing) has AVX-512F, CD, ER and PF alone, and GCC uses all of them for it.
# This build, which runs here, is for F and CD, for which oneDNN has only AVX2 kernels.
.PHONY: knl objects
objects: $(call objects,$(ROOMS))
KNL_SUBSET := -march=x86-64 -mavx2 -mfma -mavx512f -mavx512cd
KNL_CASES  := convolution*,fused*,pool*,dense*,*weight gradient*,leaky*,long vectors*
knl: ## compile everything for Xeon Phi (no link); run the layers' tests with only AVX-512F and CD
	@+$(MAKE) --no-print-directory B=build/knl ARCH=-march=knl objects
	@+$(MAKE) --no-print-directory B=build/avx512cd ARCH='$(KNL_SUBSET)' build/avx512cd/tests/nn_tests
	@if grep -qw avx512cd /proc/cpuinfo; then \
	  ONEDNN_MAX_CPU_ISA=AVX2 build/avx512cd/tests/nn_tests -tc='$(KNL_CASES)'; \
	else echo "knl: compiled; no AVX-512CD here to run the tests with"; fi

# oneDNN 3: an installation at DNNL_ROOT, or Debian 13's, which needs a newer C library than this
# machine may have: the loader that comes with it starts its tests.
.PHONY: onednn3
ONEDNN3_ROOT := $(CURDIR)/build/sysroot-onednn3
MULTIARCH := $(shell $(CXX) -print-multiarch 2>/dev/null)
sysroot-onednn3: ## fetch oneDNN 3 of Debian 13 into build/ (11 MB once)
	@test/harness/package_sysroot.sh $(ONEDNN3_ROOT) $$(dpkg --print-architecture) trixie libdnnl-dev
ifdef DNNL_ROOT
ONEDNN3_INCLUDE = $(DNNL_ROOT)/include
ONEDNN3_LIB     = $(firstword $(wildcard $(DNNL_ROOT)/lib/libdnnl.so $(DNNL_ROOT)/lib64/libdnnl.so))
ONEDNN3_RUN     = LD_LIBRARY_PATH=$(dir $(ONEDNN3_LIB))
else
onednn3: sysroot-onednn3
ONEDNN3_INCLUDE = $(ONEDNN3_ROOT)/usr/include
ONEDNN3_LIB     = $(ONEDNN3_ROOT)/usr/lib/$(MULTIARCH)/libdnnl.so
ONEDNN3_RUN     = $(wildcard $(ONEDNN3_ROOT)/usr/lib/$(MULTIARCH)/ld-linux*) --library-path \
  $(ONEDNN3_ROOT)/usr/lib/$(MULTIARCH):/usr/lib/$(MULTIARCH)
endif
onednn3: deps ## build and run the nn tests with oneDNN 3: Debian 13's, or the one under DNNL_ROOT; its kernels also on lower ISAs
	@+$(MAKE) --no-print-directory B=build/onednn3 DNNL_CFLAGS='-isystem $(ONEDNN3_INCLUDE)' \
	  DNNL_LIBS='$(ONEDNN3_LIB) -Wl,--allow-shlib-undefined' build/onednn3/tests/nn_tests
	@$(ONEDNN3_RUN) build/onednn3/tests/nn_tests
	@for isa in AVX512_CORE_BF16 AVX512_CORE AVX2; do \
	  ONEDNN_MAX_CPU_ISA=$$isa $(ONEDNN3_RUN) build/onednn3/tests/nn_tests --test-suite='own memory' || exit 1; done
