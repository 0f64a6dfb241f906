// SPDX-License-Identifier: Apache-2.0
// The namespace of code that is compiled once per instruction set.
#pragma once

// Sources that open `inline namespace HALOMESH_ISA` are compiled with the flags of the whole
// program and, on x86-64, again for each instruction set above it (Makefile, ISAS), each time in
// another namespace. Within them, plain names refer to the current instruction set. Code outside
// reaches the others only through isa_kernels.hpp.
#ifndef HALOMESH_ISA
#define HALOMESH_ISA isa_baseline
#endif

// Sources that open `inline namespace HALOMESH_VECTORS` need no more than vectors of fp32 and
// integers. An instruction set that only adds to another's, as bf16 dot products do, uses the code
// that was compiled for that one.
#ifndef HALOMESH_VECTORS
#define HALOMESH_VECTORS HALOMESH_ISA
#endif
