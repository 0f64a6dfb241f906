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
