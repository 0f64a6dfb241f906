# SPDX-License-Identifier: Apache-2.0
# Builds, tests and installs halomesh. `make help` lists the targets and the variables.
# Sources are found by wildcard: adding a file to a room needs no edit here.

BUILD   ?= release
MPI     ?= openmpi
HDF5    ?= serial
PREFIX  ?= /usr/local
VERSION ?= 0.1.0
V       ?= 0
WERROR  ?= 1
UNITY   ?= 1

ifeq ($(filter $(BUILD),release debug asan tsan clang fuzz),)
$(error BUILD=$(BUILD): must be release, debug, asan, tsan, clang or fuzz)
endif
ifeq ($(filter $(MPI),openmpi mpich smpi),)
$(error MPI=$(MPI): must be openmpi, mpich or smpi)
endif
ifeq ($(filter serial parallel,$(HDF5)),)
$(error HDF5=$(HDF5): must be serial or parallel)
endif

# Runs one job per core unless -j says otherwise.
ifeq ($(MAKELEVEL),0)
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
MAKEFLAGS += -j$(JOBS)
endif
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# ALL=1 brings the packages that only some tests need.
ifeq ($(ALL),1)
TORCH := 1
ONNX := 1
BROWSER := 1
SLURM := 1
endif

LIBRARIES := $(if $(filter mpich,$(MPI)),-mpich)$(if $(filter parallel,$(HDF5)),-phdf5)
B := $(if $(filter smpi,$(MPI)),build/smpi,build/$(BUILD)$(LIBRARIES))
PROGRAM := $(if $(filter build/release,$(B)),build/halomesh,$(B)/halomesh)
Q := $(if $(filter 0,$(V)),@)

# ---------------------------------------------------------------------------------------------
# Compilers and libraries. Every ?= variable may be set on the command line or in the environment.

ifneq ($(filter $(BUILD),clang fuzz),)
CXX := clang++
endif
# With SimGrid's MPI, ranks are threads of one simulated process. No compiler wrapper is used,
# because its macros replace exit().
ifeq ($(MPI),smpi)
SIMGRID_CFLAGS ?= -isystem /usr/include/smpi
SIMGRID_LIBS   ?= -lsimgrid
MPICXX := $(CXX) $(SIMGRID_CFLAGS)
MPIRUN := build/smpi/halomesh-smpi
ISAS :=
endif
have = $(shell command -v $(1) 2>/dev/null)
MPICXX ?= $(if $(call have,mpicxx.$(MPI)),mpicxx.$(MPI),mpicxx)
MPIRUN ?= $(if $(call have,mpirun.$(MPI)),mpirun.$(MPI),mpirun)
PYTHON ?= $(if $(wildcard /usr/bin/python3),/usr/bin/python3,python3)
PROTOC ?= protoc
CLANG_FORMAT ?= clang-format
CLANG_TIDY ?= clang-tidy
# The MPI wrappers must call the compiler that builds everything else.
export OMPI_CXX := $(CXX)
export MPICH_CXX := $(CXX)

# The least CPU that the program runs on: by default this machine's. If compute nodes differ from
# the login node, build on a compute node or name their CPU, e.g. ARCH=-march=icelake-server or
# ARCH=-mcpu=a64fx. On x86-64, the program's own kernels are added for each higher instruction set
# and chosen at run time: see "Several instruction sets" below.
ARCH ?= -march=native
CXXFLAGS ?=
LDFLAGS ?=

pkg = $(shell pkg-config $(1) 2>/dev/null)
HDF5_NAMES := $(if $(filter serial,$(HDF5)),hdf5-serial,hdf5-$(MPI)) hdf5
HDF5_MODULE := $(firstword $(foreach m,$(HDF5_NAMES),$(if $(call pkg,--exists $(m) && echo y),$(m))))
ifndef HDF5_CFLAGS
HDF5_CFLAGS := $(if $(HDF5_MODULE),$(call pkg,--cflags $(HDF5_MODULE)))
endif
ifndef HDF5_LIBS
HDF5_LIBS := $(or $(if $(HDF5_MODULE),$(call pkg,--libs $(HDF5_MODULE))),-lhdf5)
endif
ifndef PROTOBUF_CFLAGS
PROTOBUF_CFLAGS := $(call pkg,--cflags protobuf)
endif
ifndef PROTOBUF_LIBS
PROTOBUF_LIBS := $(or $(call pkg,--libs protobuf),-lprotobuf)
endif
# Linked, not header-only: a file that formats compiles in 0.4 s instead of 5.6 s.
ifndef FMT_CFLAGS
FMT_CFLAGS := $(call pkg,--cflags fmt)
endif
ifndef FMT_LIBS
FMT_LIBS := $(or $(call pkg,--libs fmt),-lfmt)
endif
ifndef HWLOC_CFLAGS
HWLOC_CFLAGS := $(call pkg,--cflags hwloc)
endif
ifndef HWLOC_LIBS
HWLOC_LIBS := $(or $(call pkg,--libs hwloc),-lhwloc)
endif
DNNL_CFLAGS ?=
DNNL_LIBS   ?= -ldnnl
FFTW_CFLAGS ?=
EIGEN_CFLAGS ?= -isystem /usr/include/eigen3
FFTW_LIBS   ?= -lfftw3_omp -lfftw3f_omp -lfftw3 -lfftw3f -lm
BOOST_CFLAGS ?=
BOOST_LIBS  ?= -lboost_program_options
ZLIB_LIBS   ?= -lz
ISAL_LIBS   ?= -lisal
# Optional: reads data sets of NIfTI files.
NIFTI_LIBS  ?= $(if $(wildcard /usr/include/nifti/nifti2_io.h),-lnifti2 -lznz)

OPT_release := -O3 -g1
OPT_debug   := -O0 -g
OPT_asan    := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
OPT_tsan    := -O1 -g1 -fno-omit-frame-pointer -fsanitize=thread
OPT_clang   := -O0
OPT_fuzz    := -O1 -g1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow \
               -fno-sanitize-recover=all
SANITIZE    := $(filter -fsanitize%,$(OPT_$(BUILD)))
# The simulated program never runs its kernels. smpirun loads it as a library.
ifeq ($(MPI),smpi)
OPT_release := -O1 -g1 -fPIC -DHALOMESH_SIMULATED
endif

# Most tests and the commands compute little: -O1 builds them in two thirds of the time.
OPT_tests   := $(if $(filter release,$(BUILD)),-O1)

# GCC 12 and 13 warn of overlapping copies in `"text" + std::string` that do not exist (GCC PR
# 105651). Clang reports each loop that it fails to vectorize as requested; with sanitizers there
# are many.
GCC  := $(findstring Free Software Foundation,$(shell $(CXX) --version 2>/dev/null))
WARN := -Wall -Wextra -Wconversion -Wshadow $(if $(filter 0,$(WERROR)),,-Werror) $(if $(GCC),-Wno-restrict,-Wno-pass-failed)
BASE := -std=c++20 $(OPT_$(BUILD)) $(ARCH) $(WARN) -I. -Iinclude $(FMT_CFLAGS)

# The outside libraries that each room may use: FLAGS_pure has only {fmt}.
FLAGS_pure := $(BASE) $(CXXFLAGS)
FLAGS_nn   := $(BASE) -fopenmp $(DNNL_CFLAGS) $(CXXFLAGS)
FLAGS_synth := $(BASE) -fopenmp $(DNNL_CFLAGS) $(FFTW_CFLAGS) $(EIGEN_CFLAGS) $(CXXFLAGS)
# The MPI standard has dropped MPI's own C++ classes; the header of a parallel HDF5 includes mpi.h.
NO_MPI_CLASSES := -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1
FLAGS_files := $(BASE) -pthread $(if $(filter parallel,$(HDF5)),$(NO_MPI_CLASSES)) $(HDF5_CFLAGS) $(BOOST_CFLAGS) $(CXXFLAGS)
FLAGS_mpi  := $(BASE) -fopenmp -pthread -isystem $(B)/gen $(HDF5_CFLAGS) $(PROTOBUF_CFLAGS) \
              $(DNNL_CFLAGS) $(FFTW_CFLAGS) $(BOOST_CFLAGS) $(HWLOC_CFLAGS) \
              $(NO_MPI_CLASSES) $(CXXFLAGS)
FLAGS_generated := -std=c++20 $(filter-out -W%,$(OPT_$(BUILD))) $(ARCH) -w -pthread -I$(B)/gen \
                   $(PROTOBUF_CFLAGS) $(CXXFLAGS)
LINK := $(SANITIZE) $(LDFLAGS) -Wl,--as-needed
LIBS_nn  := -fopenmp $(DNNL_LIBS) $(FFTW_LIBS) $(FMT_LIBS)
LIBS_mpi := $(LIBS_nn) $(HDF5_LIBS) $(PROTOBUF_LIBS) $(BOOST_LIBS) $(NIFTI_LIBS) $(ZLIB_LIBS) $(ISAL_LIBS) -pthread
LIBS_mpi += $(HWLOC_LIBS)
ifeq ($(MPI),smpi)
LINK += -shared -Wl,-z,defs
LIBS_mpi += $(SIMGRID_LIBS)
endif

# ---------------------------------------------------------------------------------------------
# Sources of each room.

PARTITION := $(wildcard partition/*.cpp partition/*/*.cpp)
NN        := $(wildcard src/nn/*.cpp src/nn/*/*.cpp)
SYNTH     := $(wildcard src/synth/*.cpp src/baseline/*.cpp)
MODELS    := $(wildcard models/*.cpp)
ONNX_ROOM := $(wildcard models/onnx/*.cpp)
RUNTIME   := $(wildcard runtime/*/*.cpp)
APPS      := $(wildcard src/apps/*.cpp src/apps/*/*.cpp)
# Simulated ranks have no data: they are only measured.
ifeq ($(MPI),smpi)
SYNTH     :=
RUNTIME   := $(wildcard $(addprefix runtime/,$(addsuffix /*.cpp,simulated posix mpi machine log step))) \
             runtime/train/gradient_skips.cpp
APPS      := src/apps/main.cpp src/apps/train/network_on_mesh.cpp src/apps/train/memory_choice.cpp \
             $(wildcard $(addprefix src/apps/,$(addsuffix /*.cpp,options launch forecast bench)))
APPS      := $(filter-out %/info.cpp %/bench_input.cpp %/calibrate.cpp,$(APPS))
else
RUNTIME   := $(filter-out runtime/simulated/% $(if $(NIFTI_LIBS),,%/nifti_cases.cpp),$(RUNTIME))
APPS      := $(filter-out $(if $(NIFTI_LIBS),,%/nifti_segmentations.cpp),$(APPS))
endif
PROTO     := $(wildcard runtime/*/*.proto models/*/*.proto)
ROOMS     := $(PARTITION) $(NN) $(SYNTH) $(MODELS) $(ONNX_ROOM) $(RUNTIME) $(APPS)
HEADERS   := $(wildcard include/*.hpp partition/*.hpp partition/*/*.hpp src/nn/*.hpp \
                        src/nn/*/*.hpp src/synth/*.hpp src/baseline/*.hpp models/*.hpp models/*/*.hpp \
                        runtime/*/*.hpp \
                        src/apps/*/*.hpp)

HARNESS_MPI  := $(filter-out %_main.cpp,$(wildcard test/harness/mpi*.cpp))
HARNESS      := $(filter-out %_main.cpp $(HARNESS_MPI),$(wildcard test/harness/*.cpp))
TEST_PURE    := $(wildcard test/partition/*.cpp test/partition/*/*.cpp test/include/*.cpp)
TEST_NN      := $(wildcard test/nn/*.cpp test/synth/*.cpp test/baseline/*.cpp test/models/*.cpp)
TEST_RUNTIME := $(filter-out $(if $(NIFTI_LIBS),,%/nifti_cases_test.cpp),$(wildcard test/runtime/*/*.cpp))
TEST_MPI     := $(wildcard test/mpi/*.cpp)
TEST_APPS    := $(wildcard test/apps/*/*.cpp)
TEST_SYSTEM  := $(wildcard test/system/*.cpp)
TEST_LONG    := $(wildcard test/long/*.cpp)
TESTS        := $(HARNESS) $(HARNESS_MPI) $(TEST_PURE) $(TEST_NN) $(TEST_RUNTIME) $(TEST_MPI) \
                $(TEST_APPS) $(TEST_SYSTEM) $(TEST_LONG) $(wildcard test/harness/*_main.cpp)
PYTHON_TESTS := $(wildcard test/system/*_test.py)
FUZZ_TARGETS := $(wildcard test/fuzz/*_fuzz.cpp)
# The tests of code that is compiled for several instruction sets.
ISA_TESTS    := $(wildcard $(addprefix test/nn/,dense_source_test.cpp pooled_*_test.cpp sparse_*_test.cpp \
                  winograd_*_test.cpp convolution_block_rules_test.cpp isa_kernels_test.cpp))

# Unity builds: one compilation includes up to UNIT sources of one directory, so that headers are
# read an eighth as often. With UNITY=0 each source is compiled by itself, which is quicker after a
# small change. Sources with flags of their own, with main(), or that record their own path stay
# alone.
UNIT  := 8
ISA_SOURCES := $(shell grep -lsE '^inline namespace HALOMESH_(ISA|VECTORS)' $(NN))
ALONE := src/apps/main.cpp test/runtime/posix/failing_reads.cpp src/apps/launch/version.cpp src/nn/kernels/isa_kernels.cpp runtime/log/mllog.cpp $(ISA_SOURCES) \
         $(wildcard test/harness/*_main.cpp test/include/error_test.cpp test/mpi/counted_messages.cpp runtime/posix/*.cpp runtime/data/nifti_cases.cpp \
           src/apps/train/nifti_segmentations.cpp)
in_directory = $(foreach s,$(2),$(if $(filter $(1),$(dir $(s))),$(s)))
first_to_last = $(wordlist 1,$(UNIT),$(1))
behind_first = $(wordlist $(words x $(first_to_last)),$(words $(1)),$(1))
# $(call new_units,SOURCES) groups them into units, each named after its first source.
define new_unit
UNITS += $(firstword $(1))
MEMBERS_$(firstword $(1)) := $(1)
$(foreach s,$(1),$(eval UNIT_OF_$(s) := $(B)/obj/unit/$(basename $(firstword $(1))).o))
endef
new_units = $(if $(1),$(eval $(call new_unit,$(first_to_last)))$(call new_units,$(behind_first)))
UNITS :=
ifneq ($(UNITY),0)
$(foreach list,PARTITION NN SYNTH MODELS ONNX_ROOM RUNTIME APPS HARNESS HARNESS_MPI TEST_PURE TEST_NN TEST_RUNTIME TEST_MPI \
               TEST_APPS TEST_SYSTEM TEST_LONG,\
  $(foreach d,$(sort $(dir $($(list)))),$(call new_units,$(filter-out $(ALONE),$(call in_directory,$(d),$($(list)))))))
endif

objects   = $(sort $(foreach s,$(1),$(or $(UNIT_OF_$(s)),$(s:%.cpp=$(B)/obj/%.o))))
generated = $(patsubst %.proto,$(B)/gen/%.pb.$(2),$(1))
PB_HEADERS := $(call generated,$(PROTO),h)
PB_OBJECTS := $(patsubst %.proto,$(B)/obj/%.pb.o,$(PROTO))

# ---------------------------------------------------------------------------------------------
##@ Building

.PHONY: all
all: $(PROGRAM) ## build the program: build/halomesh, or build/BUILD/halomesh for other builds

build/halomesh: $(if $(filter build/halomesh,$(PROGRAM)),$(B)/halomesh)
	$(Q)ln -sfn release/halomesh $@

# A stamp is rewritten only if its text changes, so that its dependents are rebuilt exactly then.
define stamp
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(1))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(1))' > $@
endef
.PHONY: FORCE
FORCE:
$(B)/stamp/flags: FORCE
	$(call stamp,$(CXX) $(MPICXX) $(FLAGS_mpi) $(FLAGS_synth) $(FLAGS_files) $(OPT_tests) $(ISAS))
$(B)/stamp/link: FORCE
	$(call stamp,$(CXX) $(MPICXX) $(LINK) $(LIBS_mpi) $(ROOMS) $(TESTS))
$(B)/stamp/commit: FORCE
	$(call stamp,$(VERSION) $(GIT_COMMIT) $(PYTHON))
GIT_COMMIT ?= $(or $(shell git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null),unknown)

# $(call unit,FIRST SOURCE,COMPILER,FLAGS) makes the rules of one unit. Tests get namespaces of
# their own, because they repeat one another's names.
define unit
$(B)/unit/$(1): $(if $(filter-out test/harness/%,$(filter test/%,$(1))),$(MEMBERS_$(1)) test/harness/test_unit.sh) FORCE
	$$(call stamp_of,$(if $(filter-out test/harness/%,$(filter test/%,$(1))),test/harness/test_unit.sh,printf '$(hash)include "%s"\n') $(MEMBERS_$(1)))
$(B)/obj/unit/$(basename $(1)).o: $(B)/unit/$(1) $(B)/stamp/flags | $(if $(filter $(MPICXX),$(2)),$(PB_HEADERS))
	@mkdir -p $$(@D)
	@echo "  CXX   $(1)$(if $(word 2,$(MEMBERS_$(1))), and $(words $(wordlist 2,$(UNIT),$(MEMBERS_$(1)))) more)"
	$(Q)$(2) $(3) $(if $(GCC),-Wno-subobject-linkage) $$(DEFINES) -MMD -MP -c $$< -o $$@
endef
hash := \#
# Rewrites the stamp only if the output of COMMAND has changed.
define stamp_of
	@mkdir -p $(@D)
	@$(1) >$@.new && { cmp -s $@.new $@ && rm $@.new || mv $@.new $@; }
endef
# $(call compile,SOURCES,COMPILER,FLAGS) makes rules that compile sources and check them with
# clang-tidy, both with exactly these flags.
define compile
$(foreach u,$(filter $(1),$(UNITS)),$(eval $(call unit,$(u),$(2),$(3))))
$(patsubst %.cpp,$(B)/obj/%.o,$(1)): $(B)/obj/%.o: %.cpp $(B)/stamp/flags | $(if $(filter $(MPICXX),$(2)),$(PB_HEADERS))
	@mkdir -p $$(@D)
	@echo "  CXX   $$<"
	$(Q)$(2) $(3) $$(DEFINES) -MMD -MP -c $$< -o $$@
$(patsubst %.cpp,$(B)/tidy/%.ok,$(1)): $(B)/tidy/%.ok: %.cpp $(HEADERS) .clang-tidy | $(PB_HEADERS)
	@mkdir -p $$(@D)
	@echo "  TIDY  $$<"
	$(Q)$(CLANG_TIDY) --quiet $$< -- $(filter-out -fsanitize% -fno-sanitize% -Wno-restrict,$(3)) $$(DEFINES) $(if $(filter $(MPICXX),$(2)),$$(MPI_INCLUDES)) 2>$$@.err \
	  || { cat $$@.err; exit 1; }
	@touch $$@
endef
MPI_INCLUDES = $(patsubst -I%,-isystem %,$(filter -I%,$(shell $(MPICXX) -show)))

COMPUTING_APPS := $(filter src/apps/bench/% src/apps/forecast/% src/apps/plan/%,$(APPS))
$(eval $(call compile,$(PARTITION),$(CXX),$(FLAGS_pure)))
$(eval $(call compile,$(TEST_PURE) test/harness/plain_main.cpp,$(CXX),$(FLAGS_pure) $(OPT_tests)))
$(eval $(call compile,$(NN) $(HARNESS),$(CXX),$(FLAGS_nn)))
$(eval $(call compile,$(SYNTH) $(MODELS) $(TEST_NN),$(CXX),$(FLAGS_synth)))
$(eval $(call compile,$(TEST_SYSTEM) $(TEST_LONG),$(CXX),$(FLAGS_files) $(OPT_tests)))
$(eval $(call compile,$(ONNX_ROOM) $(RUNTIME) $(COMPUTING_APPS) $(HARNESS_MPI) test/harness/mpi_main.cpp,$(MPICXX),$(FLAGS_mpi)))
$(eval $(call compile,$(filter-out $(COMPUTING_APPS),$(APPS)),$(MPICXX),$(FLAGS_mpi) $(OPT_tests)))
$(eval $(call compile,$(TEST_RUNTIME) $(TEST_MPI) $(TEST_APPS),$(MPICXX),$(FLAGS_mpi) $(OPT_tests)))

# Square roots never fail here: loops with them become vector instructions.
$(call objects,$(wildcard src/nn/optimizers/*.cpp)): DEFINES = -fno-math-errno

# Headers of the NIfTI library include one another without their directory.
NIFTI_CFLAGS ?= -isystem /usr/include/nifti
NIFTI_SOURCES := runtime/data/nifti_cases src/apps/train/nifti_segmentations
$(patsubst %,$(B)/obj/%.o,$(NIFTI_SOURCES)) $(patsubst %,$(B)/tidy/%.ok,$(NIFTI_SOURCES)): DEFINES = $(NIFTI_CFLAGS)

# The only file that knows the commit of its build, and the Python that runs the package.
$(B)/obj/src/apps/launch/version.o: $(B)/stamp/commit
$(B)/obj/src/apps/launch/version.o $(B)/tidy/src/apps/launch/version.ok: \
  DEFINES = -DHALOMESH_VERSION='"$(VERSION)"' -DHALOMESH_GIT_COMMIT='"$(GIT_COMMIT)"' -DHALOMESH_PYTHON='"$(PYTHON)"'

$(B)/gen/%.pb.h $(B)/gen/%.pb.cc: %.proto
	@mkdir -p $(@D)
	@echo "  PROTO $<"
	$(Q)$(PROTOC) --cpp_out=$(B)/gen $<
$(PB_OBJECTS): $(B)/obj/%.pb.o: $(B)/gen/%.pb.cc $(B)/stamp/flags | $(PB_HEADERS)
	@mkdir -p $(@D)
	@echo "  CXX   $<"
	$(Q)$(CXX) $(FLAGS_generated) -MMD -MP -c $< -o $@

# $(call program,FILE,OBJECTS,LINKER,LIBRARIES) makes the rule of a program.
define program
$(1): $(2) $(B)/stamp/link
	@mkdir -p $$(@D)
	@echo "  LINK  $$@"
	$(Q)$(3) $(LINK) $(2) $(4) -o $$@
endef

# ---------------------------------------------------------------------------------------------
# Several instruction sets: sources that open `inline namespace HALOMESH_ISA` are compiled once more
# for each of ISAS, in a namespace of its own (src/nn/kernels/isa.hpp).

ISA_FLAGS_avx2        := -mavx2 -mfma -mbmi -mbmi2
ISA_FLAGS_avx512      := $(ISA_FLAGS_avx2) -mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl
ISA_FLAGS_avx512_bf16 := $(ISA_FLAGS_avx512) -mavx512bf16
ISA_MACRO_avx2        := __AVX2__
ISA_MACRO_avx512      := __AVX512BW__
ISA_MACRO_avx512_bf16 := __AVX512BF16__
ALL_ISAS := $(if $(filter x86_64%,$(shell $(CXX) -dumpmachine 2>/dev/null)),avx2 avx512 avx512_bf16)
# The sets that ARCH does not include; sanitizers see the kernels of ARCH alone.
ARCH_MACROS := $(if $(ALL_ISAS),$(shell $(CXX) $(ARCH) -dM -E -x c++ /dev/null 2>/dev/null | grep -oE '__AVX[0-9A-Z]+__'))
ISAS ?= $(if $(SANITIZE),,$(foreach isa,$(ALL_ISAS),$(if $(filter $(ISA_MACRO_$(isa)),$(ARCH_MACROS)),,$(isa))))
isa_objects  = $(patsubst %.cpp,$(B)/obj/isa-$(1)/%.o,$(2))
ISA_OBJECTS := $(foreach isa,$(ISAS),$(B)/obj/isa-$(isa).o)

# All code of an instruction set becomes one object that shows only the names of its namespace. The
# linker keeps one copy of each inline function and template; otherwise it could give code for
# AVX-512 to the whole program.
ISA_LINK := $(firstword $(call have,$(shell $(CXX) -print-prog-name=ld.bfd)) $(shell $(CXX) -print-prog-name=ld))
ISA_COPY := $(shell $(CXX) -print-prog-name=objcopy)
ISA_VECTORS_avx512_bf16 := $(or $(filter avx512,$(ISAS)),baseline)
isa_vectors = $(or $(ISA_VECTORS_$(1)),$(1))
# The sources that are compiled for this instruction set.
isa_sources = $(if $(ISA_VECTORS_$(1)),$(shell grep -ls '^inline namespace HALOMESH_ISA' $(NN)),$(ISA_SOURCES))
define isa_rules
$(call isa_objects,$(1),$(ISA_SOURCES) $(ISA_TESTS)): $(B)/obj/isa-$(1)/%.o: %.cpp $(B)/stamp/flags
	@mkdir -p $$(@D)
	@echo "  CXX   $$< ($(1))"
	$(Q)$(CXX) $(FLAGS_nn) $(ISA_FLAGS_$(1)) -DHALOMESH_ISA=isa_$(1) -DHALOMESH_VECTORS=isa_$(isa_vectors) -MMD -MP -c $$< -o $$@
$(B)/obj/isa-$(1).o: $(call isa_objects,$(1),$(isa_sources)) $(B)/stamp/link
	@echo "  LINK  $$@"
	$(Q)$(ISA_LINK) -r --force-group-allocation $$(filter %.o,$$^) -o $$@
	$(Q)$(ISA_COPY) --wildcard --keep-global-symbol='*isa_$(1)*' $$@
endef
$(foreach isa,$(ALL_ISAS),$(eval $(call isa_rules,$(isa))))
$(B)/obj/src/nn/kernels/isa_kernels.o $(B)/tidy/src/nn/kernels/isa_kernels.ok: \
  DEFINES = $(addprefix -DHALOMESH_WITH_,$(ISAS))

# There is one archive per room, the upper ones first: a program takes from each the objects that it
# calls.
$(B)/lib/libapps.a: $(call objects,$(filter-out src/apps/main.cpp,$(APPS)))
$(B)/lib/libruntime.a: $(call objects,$(RUNTIME)) $(filter %/example.pb.o,$(PB_OBJECTS))
$(B)/lib/libsynth.a: $(call objects,$(SYNTH))
$(B)/lib/libmodels.a: $(call objects,$(MODELS) $(ONNX_ROOM)) $(filter-out %/example.pb.o,$(PB_OBJECTS))
$(B)/lib/libnn.a: $(call objects,$(NN)) $(ISA_OBJECTS)
$(B)/lib/libpartition.a: $(call objects,$(PARTITION))
$(B)/lib/%.a: $(B)/stamp/link
	@mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)
archives = $(patsubst %,$(B)/lib/lib%.a,$(1))
# Nothing calls objects that register themselves by name, so they are linked directly.
registered = $(call objects,$(shell grep -ls '^const Registered<' $(1)))
L2 := $(call registered,$(NN)) $(call archives,nn partition)
L3 := $(call registered,$(MODELS) $(ONNX_ROOM) $(RUNTIME) $(NN)) $(call archives,runtime $(if $(SYNTH),synth) models nn partition)
ALL_ROOMS := $(call registered,$(APPS)) $(call registered,$(MODELS) $(ONNX_ROOM) $(RUNTIME) $(NN)) $(call archives,apps runtime $(if $(SYNTH),synth) models nn partition)
$(eval $(call program,$(B)/halomesh,$(call objects,src/apps/main.cpp) $(ALL_ROOMS),$(MPICXX),$(LIBS_mpi)))

# The real program on simulated ranks; its own launcher starts it.
.PHONY: smpi
smpi: ## build build/smpi/halomesh-smpi, which runs the program on simulated ranks (SimGrid)
	@+$(MAKE) --no-print-directory MPI=smpi deps
	@+$(MAKE) --no-print-directory MPI=smpi build/smpi/halomesh-smpi
build/smpi/halomesh-smpi: jobscripts/halomesh-smpi.sh $(if $(filter smpi,$(MPI)),build/smpi/halomesh)
	@mkdir -p $(@D)
	$(Q)install -m 755 $< $@

.PHONY: install
PYTHON_PACKAGE := $(wildcard $(foreach e,py html css js,python/halomesh/*.$(e) python/halomesh/*/*.$(e)))
install: $(PROGRAM) ## install the program, configurations, job script templates and the Python package under PREFIX (honours DESTDIR)
	install -D -m 755 $(B)/halomesh $(DESTDIR)$(PREFIX)/bin/halomesh
	$(foreach f,$(wildcard models/*.cfg),install -D -m 644 $(f) $(DESTDIR)$(PREFIX)/share/halomesh/$(f) &&) :
	$(foreach f,$(wildcard jobscripts/sites/* jobscripts/templates/* jobscripts/examples/* jobscripts/machines/*),install -D -m 644 $(f) $(DESTDIR)$(PREFIX)/share/halomesh/$(f) &&) :
	rm -rf $(DESTDIR)$(PREFIX)/share/halomesh/python
	$(foreach f,$(PYTHON_PACKAGE),install -D -m 644 $(f) $(DESTDIR)$(PREFIX)/share/halomesh/$(f) &&) :
	install -D -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/halomesh/LICENSE

.PHONY: installcheck
GIVEN_PREFIX := $(if $(filter file,$(origin PREFIX)),,$(DESTDIR)$(PREFIX))
installcheck: all ## run the program installed in PREFIX=... on 2 ranks (default: a temporary installation)
	@prefix='$(GIVEN_PREFIX)'; \
	if [ -z "$$prefix" ]; then \
	  scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && prefix=$$scratch/opt/halomesh && \
	  $(MAKE) --no-print-directory install DESTDIR="$$scratch" PREFIX=/opt/halomesh >/dev/null || exit 1; \
	fi; \
	MPI=$(MPI) MPIRUN='$(MPIRUN)' test/harness/install_check.sh "$$prefix"

.PHONY: deps
deps: export HDF5_CFLAGS := $(HDF5_CFLAGS)
deps: export PROTOBUF_CFLAGS := $(PROTOBUF_CFLAGS)
deps: export DNNL_CFLAGS := $(DNNL_CFLAGS)
deps: export FFTW_CFLAGS := $(FFTW_CFLAGS)
deps: export EIGEN_CFLAGS := $(EIGEN_CFLAGS)
deps: export FMT_CFLAGS := $(FMT_CFLAGS)
deps: export BOOST_CFLAGS := $(BOOST_CFLAGS)
deps: export HWLOC_CFLAGS := $(HWLOC_CFLAGS)
NPM_INSTALL := npm install --silent --no-audit --no-fund --fetch-timeout=60000 --fetch-retries=1 --prefix build/browser
# A virtual environment, as Debian has older ones.
ONNX_PACKAGES := numpy h5py onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2 torch==2.13.0
deps: export CXX := $(CXX)
deps: export MPIRUN := $(MPIRUN)
deps: export PYTHON := $(PYTHON)
deps: ## install missing packages (Debian, Ubuntu); elsewhere print what is missing
	@test/harness/install_dependencies.sh --mpi=$(MPI) --hdf5=$(HDF5) $(if $(filter 1,$(TORCH)),--torch) $(if $(filter 1,$(LINT)),--lint) $(if $(filter 1,$(SLURM)),--slurm) $(if $(filter 1,$(BENCHMARK)),--benchmark) $(if $(filter 1,$(DOCS)),--docs) $(if $(filter 1,$(BROWSER)),--browser)
	$(if $(filter 1,$(BROWSER)),@test -d build/browser/node_modules/axe-core || \
	  $(NPM_INSTALL) playwright-core@1.65.1 axe-core@4.14.1 || \
	  echo "npm could not install playwright-core and axe-core: tests that use them will be skipped." >&2)
	$(if $(filter 1,$(ONNX)),@test -d build/onnx/lib/python3*/site-packages/h5py || \
	  { $(PYTHON) -m venv build/onnx && build/onnx/bin/pip install -q $(ONNX_PACKAGES); } || \
	  echo "pip could not install $(ONNX_PACKAGES): tests that use them will be skipped." >&2)

.PHONY: quickstart
quickstart: deps ## install missing packages, build, make a small data set and train on it
	@+$(MAKE) --no-print-directory BUILD=release all
	@MPIRUN='$(MPIRUN)' jobscripts/quickstart.sh build/halomesh quickstart

.PHONY: quickstart-unet
quickstart-unet: deps ## the same for a 3-D U-Net that classifies the voxels of volumes
	@+$(MAKE) --no-print-directory BUILD=release all
	@MPIRUN='$(MPIRUN)' jobscripts/quickstart_unet.sh build/halomesh quickstart-unet

.PHONY: benchmark-run
benchmark-run: deps ## train a small network until MLPerf's quality (half an hour); CHECKER=DIR checks the log with a copy of mlcommons/logging
	@+$(MAKE) --no-print-directory BUILD=release all
	@MPIRUN='$(MPIRUN)' CHECKER='$(CHECKER)' jobscripts/benchmark_run.sh build/halomesh benchmark-run

.PHONY: examples
examples: $(PROGRAM) ## write job scripts for the published runs and other sites into build/examples
	$(Q)jobscripts/examples/make.sh $(PROGRAM) build/examples

.PHONY: clean
clean: ## remove build/
	rm -rf build

# ---------------------------------------------------------------------------------------------
##@ Testing

# A test program exists where its directory holds at least one *_test.cpp.
if_tests = $(if $(filter %_test.cpp,$(1)),$(2))
TEST_NAMES := $(call if_tests,$(TEST_PURE),partition_tests) $(call if_tests,$(TEST_NN),nn_tests) \
              $(call if_tests,$(TEST_RUNTIME),runtime_tests) $(call if_tests,$(TEST_MPI),mpi_tests) \
              $(call if_tests,$(TEST_APPS),app_tests) $(call if_tests,$(TEST_SYSTEM),system_tests)
TEST_PROGRAMS := $(addprefix $(B)/tests/,$(TEST_NAMES))
PLAIN_MAIN := $(call objects,test/harness/plain_main.cpp)
MPI_MAIN   := $(call objects,test/harness/mpi_main.cpp)

# An archive: each test program takes from the harness only what it calls.
HARNESS_LIB := $(if $(HARNESS),$(B)/tests/libharness.a)
HARNESS_MPI_LIB := $(if $(HARNESS)$(HARNESS_MPI),$(B)/tests/libharness_mpi.a)
$(B)/tests/libharness.a: $(call objects,$(HARNESS)) $(B)/stamp/link
$(B)/tests/libharness_mpi.a: $(call objects,$(HARNESS) $(HARNESS_MPI)) $(B)/stamp/link
$(B)/tests/%.a:
	@mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)

$(eval $(call program,$(B)/tests/partition_tests,$(PLAIN_MAIN) $(call objects,$(TEST_PURE)) $(HARNESS_LIB) $(call archives,partition),$(CXX),$(FMT_LIBS) -pthread))
$(eval $(call program,$(B)/tests/nn_tests,$(PLAIN_MAIN) $(call objects,$(TEST_NN)) $(HARNESS_LIB) $(call registered,$(MODELS) $(ONNX_ROOM) $(NN)) $(call archives,$(if $(SYNTH),synth) models nn partition),$(CXX),$(LIBS_nn) $(PROTOBUF_LIBS) -pthread))
$(eval $(call program,$(B)/tests/runtime_tests,$(MPI_MAIN) $(call objects,$(TEST_RUNTIME)) $(HARNESS_MPI_LIB) $(L3),$(MPICXX),$(LIBS_mpi)))
$(eval $(call program,$(B)/tests/mpi_tests,$(MPI_MAIN) $(call objects,$(TEST_MPI)) $(HARNESS_MPI_LIB) $(L3),$(MPICXX),$(LIBS_mpi)))
$(eval $(call program,$(B)/tests/app_tests,$(MPI_MAIN) $(call objects,$(TEST_APPS)) $(HARNESS_MPI_LIB) $(ALL_ROOMS),$(MPICXX),$(LIBS_mpi)))
$(eval $(call program,$(B)/tests/system_tests,$(PLAIN_MAIN) $(call objects,$(TEST_SYSTEM)) $(HARNESS_LIB) $(call archives,partition),$(CXX),$(HDF5_LIBS) $(BOOST_LIBS) $(FMT_LIBS) -pthread))
$(eval $(call program,$(B)/tests/long_tests,$(PLAIN_MAIN) $(call objects,$(TEST_LONG)) $(HARNESS_LIB) $(call archives,partition),$(CXX),$(HDF5_LIBS) $(BOOST_LIBS) $(FMT_LIBS) -pthread))

# These run under emulators: see test/harness/builds.mk.
EMULATED := $(wildcard test/emulation/*.cpp)
$(eval $(call compile,$(EMULATED),$(CXX),$(FLAGS_nn)))
$(eval $(call program,$(B)/tests/gradient_work,$(call objects,$(EMULATED)) $(L2),$(CXX),$(LIBS_nn)))

.PHONY: test-programs
test-programs: $(TEST_PROGRAMS) isa-test-programs

# The kernels of each instruction set, also of those below ARCH; nn_tests has those of ARCH itself.
ISA_OF_ARCH := $(lastword $(filter-out $(ISAS),$(ALL_ISAS)))
ISA_TEST_NAMES := $(if $(SANITIZE),,$(patsubst %,isa_%_tests,$(filter-out $(ISA_OF_ARCH),$(ALL_ISAS))))
define isa_tests
$(eval $(call program,$(B)/tests/isa_$(1)_tests,$(PLAIN_MAIN) $(call isa_objects,$(1),$(ISA_TESTS)) $(if $(filter $(1),$(ISAS)),,$(B)/obj/isa-$(1).o) $(HARNESS_LIB) $(L2),$(CXX),$(LIBS_nn) -pthread))
endef
$(foreach isa,$(ALL_ISAS),$(call isa_tests,$(isa)))
.PHONY: isa-test-programs
isa-test-programs: $(patsubst %,$(B)/tests/%,$(ISA_TEST_NAMES))

# $(call run_tests,NAMES) runs tests after all builds; its last line is the total.
run_tests = @HALOMESH=$(CURDIR)/$(PROGRAM) HALOMESH_SOURCE=$(CURDIR) MPI=$(MPI) MPIRUN='$(MPIRUN)' \
  PYTHON=$(PYTHON) TEST_JOBS=$(TEST_JOBS) test/harness/run_tests.sh $(B)/tests $(1)

.PHONY: test run-tests
SHELL_TESTS := $(wildcard test/harness/*_test.sh)
# The longest ones come first, in shares: three runs side by side keep two cores busy, as tests of whole
# jobs mostly wait. MPICH's waiting ranks never yield a core.
TEST_JOBS   ?= $(if $(filter mpich,$(MPI)),1,3)
SYSTEM_SHARES := $(addprefix system_tests/,$(addsuffix /8,1 2 3 4 5 6 7 8))
ALL_TESTS   := $(if $(filter system_tests,$(TEST_NAMES)),$(SYSTEM_SHARES)) $(filter-out system_tests,$(TEST_NAMES)) $(ISA_TEST_NAMES) own_memory layers \
               $(SHELL_TESTS) $(PYTHON_TESTS)
test: deps ## install missing packages, build and run the tests; ALL=1: every test, with PyTorch, a browser and Slurm
	@+$(MAKE) --no-print-directory all test-programs
	@+$(MAKE) --no-print-directory run-tests
# Each case has its own limit, which grows with the load; this one is for hangs between cases.
run-tests: export TEST_SECONDS ?= 14400
run-tests: ## run tests that are built: all, or those named by RUN, e.g. RUN='nn_tests layers'
	$(call run_tests,$(or $(RUN),$(ALL_TESTS)))

# The inner loop: neither installs anything nor starts more than one rank.
.PHONY: check check-mpi
CHECKED := layers $(SHELL_TESTS) $(filter-out mpi_tests system_tests,$(TEST_NAMES))
check: $(addprefix $(B)/tests/,$(filter $(TEST_NAMES),$(CHECKED))) ## build and run the tests of one process and the checks of layers: a minute
	$(call run_tests,$(CHECKED))
check-mpi: $(filter %/mpi_tests,$(TEST_PROGRAMS)) ## build and run the tests on 2 to 16 ranks
	$(call run_tests,mpi_tests)

# These have their own targets because each takes minutes. MPICH's part needs the program of `make
# MPI=mpich`.
# The packages ask for much that their networks do not use.
NETWORK_PACKAGES := monai==1.6.1 dynamic-network-architectures==0.4.4 pytorch3dunet==1.9.6 the-well==1.2.0 torchvision==0.28.0 einops timm
.PHONY: real-networks
real-networks: ONNX := 1
real-networks: deps $(PROGRAM) ## compare published networks at full width with ONNX Runtime, installing their packages
	build/onnx/bin/pip install -q --no-deps $(NETWORK_PACKAGES)
	@HALOMESH=$(CURDIR)/$(PROGRAM) MPIRUN='$(MPIRUN)' OMPI_MCA_rmaps_base_oversubscribe=1 build/onnx/bin/python test/harness/real_networks.py

.PHONY: test-slurm test-kills run-tests-long
test-slurm test-kills: test-%: deps
	@+$(MAKE) --no-print-directory all $(B)/tests/long_tests
	@+$(MAKE) --no-print-directory run-tests-long SUITE=$*
test-slurm: SLURM := 1
test-slurm: ## run job scripts on a small real Slurm cluster, installing Slurm if needed (as root)
test-kills: ## kill ranks at 20 random moments of a training run
run-tests-long: export HALOMESH_MPICH ?= $(abspath $(firstword $(wildcard build/release-mpich*/halomesh)))
run-tests-long:
	$(call run_tests,long_tests:$(SUITE))

.PHONY: test-asan run-tests-asan
ASAN_NAMES := $(filter partition_tests nn_tests runtime_tests mpi_tests,$(TEST_NAMES))
test-asan: deps ## run the partition, nn, runtime and mpi tests under address and UB sanitizers; SHORT=1: of mpi only those for 2 ranks
	@+$(MAKE) --no-print-directory BUILD=asan $(addprefix build/asan$(LIBRARIES)/tests/,$(ASAN_NAMES))
	@+$(MAKE) --no-print-directory BUILD=asan run-tests-asan
run-tests-asan: export TEST_SECONDS ?= 14400
run-tests-asan: export SHORT := $(SHORT)
run-tests-asan:
	$(call run_tests,$(ASAN_NAMES))

# The tests of code beside the main thread: the background task, both loaders with their slab ring,
# staging and its node files, the directory lock's heartbeat, signal handlers, the lock around HDF5
# and the flag that ranks share.
THREAD_TESTS := $(addprefix test/,mpi/node_flag_test.cpp mpi/stage_test.cpp mpi/stage_loader_test.cpp \
                  $(addprefix runtime/,posix/background_task_test.cpp posix/directory_lock_test.cpp \
                    posix/stop_signals_test.cpp hdf5/hdf5_file_test.cpp load/direct_loader_test.cpp \
                    stage/stage_file_test.cpp))
$(eval $(call program,$(B)/tests/thread_tests,$(MPI_MAIN) $(THREAD_TESTS:%.cpp=$(B)/obj/%.o) $(HARNESS_MPI_LIB) $(L3),$(MPICXX),$(LIBS_mpi)))
.PHONY: test-tsan run-tests-tsan
test-tsan: deps ## run the tests of background threads under the thread sanitizer, on 1 and 2 ranks
	@+$(MAKE) --no-print-directory BUILD=tsan build/tsan$(LIBRARIES)/tests/thread_tests
	@+$(MAKE) --no-print-directory BUILD=tsan run-tests-tsan
run-tests-tsan:
	$(call run_tests,thread_tests)

# This has its own target because it builds the program again, for SimGrid.
.PHONY: test-smpi
test-smpi: smpi all ## run the program on 64 to 1024 simulated ranks; SHORT=1: up to 64, a minute
	@SHORT=$(SHORT) $(PYTHON) test/smpi/simulation_test.py

# Runs two cases at a time, in separate directories; some mount file systems and need root for that.
.PHONY: test-stress
test-stress: export TEST_SECONDS ?= 7200
test-stress: deps ## misuse the program in 670 ways: files, disks, options, signals, two runs at once; SHORT=1: 4 minutes
	@+$(MAKE) --no-print-directory all
	@+SHORT=$(SHORT) $(MAKE) --no-print-directory run-tests RUN=test/stress/stress_test.py

# Google Benchmark times the program's own kernels and the reading of archives; `halomesh bench`
# times whole steps.
BENCHMARKS := $(wildcard test/benchmark/*_benchmark.cpp)
BENCHMARK_PROGRAMS := $(patsubst test/benchmark/%_benchmark.cpp,$(B)/benchmarks/%,$(BENCHMARKS))
$(eval $(call compile,$(BENCHMARKS),$(MPICXX),$(FLAGS_mpi)))
$(foreach b,$(BENCHMARK_PROGRAMS),$(eval $(call program,$(b),$(call objects,test/benchmark/$(notdir $(b))_benchmark.cpp) $(L3),$(MPICXX),$(LIBS_mpi) -lbenchmark)))
.PHONY: benchmark benchmark-programs run-benchmarks
benchmark: ## time our own kernels and the reading of archives (uses OMP_NUM_THREADS threads)
	@+$(MAKE) --no-print-directory BENCHMARK=1 deps
	@+$(MAKE) --no-print-directory benchmark-programs
	@+$(MAKE) --no-print-directory run-benchmarks
benchmark-programs: $(BENCHMARK_PROGRAMS)
run-benchmarks:
	@for program in $(BENCHMARK_PROGRAMS); do $$program $(BENCHMARK_OPTIONS) || exit 1; done

# Each fuzz target is a program of its own.
FUZZ_NAMES := $(patsubst test/fuzz/%_fuzz.cpp,%,$(FUZZ_TARGETS))
FUZZ_PROGRAMS := $(addprefix $(B)/fuzz/,$(FUZZ_NAMES))
$(eval $(call compile,$(FUZZ_TARGETS),$(MPICXX),$(FLAGS_mpi)))
$(foreach f,$(FUZZ_NAMES),$(eval $(call program,$(B)/fuzz/$(f),$(call objects,test/fuzz/$(f)_fuzz.cpp) $(ALL_ROOMS),$(MPICXX) -fsanitize=fuzzer,$(LIBS_mpi))))

.PHONY: fuzz fuzz-programs run-fuzz
SECONDS ?= 3600
fuzz: ## feed damaged files to the readers for SECONDS (3600), shared by the targets; look for crashes, hangs, memory; SEED=N repeats a run
	@+$(MAKE) --no-print-directory LINT=1 deps
	@+$(MAKE) --no-print-directory BUILD=fuzz fuzz-programs
	@+$(MAKE) --no-print-directory BUILD=fuzz SECONDS=$(SECONDS) SEED=$(SEED) run-fuzz
fuzz-programs: $(FUZZ_PROGRAMS)
# Findings are kept in build/fuzz/corpus for the next run, as is an input that fails. Leaks show as
# growing memory, because MPI libraries leave some behind at exit by design. An allocation of more
# than 64 MiB fails the run if our code asks for it; if HDF5 does, it is refused, as malloc() may
# refuse it.
FUZZ_LIMITS := detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=64
run-fuzz:
	@for name in $(FUZZ_NAMES); do \
	  mkdir -p $(B)/corpus/$$name && echo "  FUZZ  $$name" && \
	  ASAN_OPTIONS=$(FUZZ_LIMITS) $(B)/fuzz/$$name -max_total_time=$$(($(SECONDS) / $(words $(FUZZ_NAMES)))) -timeout=10 \
	    -rss_limit_mb=1024 -max_len=16384 -print_final_stats=1 $(if $(SEED),-seed=$(SEED)) \
	    -artifact_prefix=$(B)/corpus/$$name-failed- $(B)/corpus/$$name test/fuzz/corpus/$$name \
	    >$(B)/corpus/$$name.log 2>&1 || { tail -n 60 $(B)/corpus/$$name.log; exit 1; }; \
	  grep -E '^stat::(number_of_executed_units|peak_rss_mb)' $(B)/corpus/$$name.log; \
	done

# ---------------------------------------------------------------------------------------------
##@ Checking

.PHONY: layers
layers: ## check that each room includes only what it may
	@test/harness/layers.sh .

.PHONY: format-check
format-check: ## check the format of every file (clang-format)
	@$(CLANG_FORMAT) --dry-run -Werror $(sort $(HEADERS) $(ROOMS) $(TESTS) $(FUZZ_TARGETS) $(BENCHMARKS) $(EMULATED) $(wildcard test/*/*.hpp test/*/*/*.hpp))
	@echo "format-check: $(words $(sort $(HEADERS) $(ROOMS) $(TESTS) $(FUZZ_TARGETS) $(BENCHMARKS) $(EMULATED) $(wildcard test/*/*.hpp test/*/*/*.hpp))) files are in form"

.PHONY: tidy
TIDY_FILES := $(ROOMS) $(HARNESS) $(HARNESS_MPI) $(wildcard test/harness/*_main.cpp)
ifdef SINCE
TIDY_FILES := $(filter $(TIDY_FILES),$(shell git diff --name-only $(SINCE)))
endif
tidy: $(patsubst %.cpp,$(B)/tidy/%.ok,$(TIDY_FILES)) ## run clang-tidy over every room; SINCE=COMMIT: over what changed since
	@echo "tidy: $(words $(TIDY_FILES)) files are clean"

.PHONY: lint
lint: ## layers + format-check + tidy
	@+$(MAKE) --no-print-directory LINT=1 deps
	@+$(MAKE) --no-print-directory layers format-check tidy

.PHONY: docs run-docs pictures screenshots
docs: DOCS := 1
docs: deps ## build docs/ into build/site (mkdocs); check links, commands, options and paths in it
	@+$(MAKE) --no-print-directory all
	@+$(MAKE) --no-print-directory run-docs
run-docs:
	$(Q)mkdocs build --strict --quiet
	$(Q)$(PYTHON) test/harness/check_docs.py $(PROGRAM) build/site
pictures: $(PROGRAM) ## redraw the pictures of meshes in docs/images from the geometry
	$(Q)$(PROGRAM) plan --config models/cosmoflow-v1.0.cfg --parts 2x2x1 --picture docs/images/cut.svg >/dev/null
	$(Q)$(PROGRAM) plan --config models/quickstart.cfg --parts 2x1x1 --picture docs/images/tutorial-mesh.svg >/dev/null
screenshots: deps ## take the pictures of a report and of a trace in docs/images anew, in Chromium
	@+$(MAKE) --no-print-directory all
	@$(NPM_INSTALL) speedscope@1.25.0
	@MPIRUN='$(MPIRUN)' test/harness/screenshots.sh $(PROGRAM) $(CURDIR)/build/browser/node_modules docs/images

.PHONY: clang
clang: ## build the program and all tests with clang++ into build/clang
	@+$(MAKE) --no-print-directory LINT=1 deps
	@+$(MAKE) --no-print-directory BUILD=clang all test-programs

include test/harness/builds.mk

# ---------------------------------------------------------------------------------------------
.PHONY: help
help: ## show this page
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' Makefile test/harness/builds.mk
	@printf '\nVariables (now)\n'
	@printf '  %-15s %s\n' \
	  BUILD 'release, debug, asan, tsan, clang or fuzz ($(BUILD))' \
	  CXX 'compiler, also used by the MPI wrapper ($(CXX))' \
	  MPI 'openmpi or mpich: packages, wrappers and launcher flags ($(MPI))' \
	  HDF5 'serial or parallel: which of the installed libraries ($(HDF5))' \
	  MPICXX 'MPI compiler wrapper ($(MPICXX))' \
	  MPIRUN 'launcher for the tests ($(MPIRUN))' \
	  PREFIX 'directory to install to ($(PREFIX))' \
	  ARCH 'CPU to generate code for ($(ARCH)): on a login node with another CPU' \
	  '' 'than the compute nodes, name theirs, or build in a job' \
	  CXXFLAGS 'added to every compilation ($(CXXFLAGS))' \
	  LDFLAGS 'added to every link, e.g. -Wl,-rpath,DIR ($(LDFLAGS))' \
	  HDF5_CFLAGS '($(HDF5_CFLAGS))' \
	  HDF5_LIBS '($(HDF5_LIBS))' \
	  '' 'likewise DNNL_, FFTW_, BOOST_, PROTOBUF_, FMT_, HWLOC_, ZLIB_ and ISAL_LIBS; EIGEN_CFLAGS' \
	  ALL '1: also test against PyTorch, ONNX Runtime, in a browser and on a real Slurm, installing them ($(ALL))' \
	  '' 'TORCH=1, ONNX=1, BROWSER=1 and SLURM=1 bring one of these' \
	  RUN 'tests that run-tests runs, from:' \
	  '' '$(ALL_TESTS)' \
	  TEST_JOBS 'number of them that run in parallel ($(TEST_JOBS))' \
	  WERROR '0: warnings are not errors ($(WERROR))' \
	  JOBS 'parallel jobs without -j ($(JOBS))' \
	  UNITY '0: compile each source by itself, for daily work ($(UNITY))' \
	  V '1: show whole commands ($(V))'

-include $(patsubst %.o,%.d,$(call objects,$(ROOMS) $(TESTS) $(FUZZ_TARGETS) $(EMULATED)) $(THREAD_TESTS:%.cpp=$(B)/obj/%.o) $(PB_OBJECTS))
-include $(foreach isa,$(ALL_ISAS),$(patsubst %.o,%.d,$(call isa_objects,$(isa),$(ISA_SOURCES) $(ISA_TESTS))))
