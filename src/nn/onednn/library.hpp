// SPDX-License-Identifier: Apache-2.0
// Facts from the oneDNN library about itself and this CPU.
#pragma once

#include <string>

#include "src/nn/data_type.hpp"

namespace halomesh {

/// The version of the library in use, e.g. "2.6.3".
std::string onednn_version();

/// The library's name of the best instruction set that it may use here, e.g. "avx512_core_bf16" or
/// "sve_512".
std::string cpu_isa_name();
/// Whether this CPU has instructions for products of bf16, so that the library need not emulate
/// them. Known only for x86-64; false elsewhere.
bool cpu_computes_bf16();
/// Whether the library may use vectors of 512 bits on an x86-64, for which it has more kernels of
/// channels-last convolutions; true elsewhere.
bool cpu_has_wide_vectors();
/// Whether the library may use this CPU's unit for products of bf16 matrices (AMX).
bool cpu_has_matrix_unit();
/// Whether the dot products of pairs of bf16 are as fast as multiply-adds of fp32, of which each
/// does two.
bool cpu_has_fast_dots();

/// The multiply-adds of direct sums of `compute`, kFloat32 or kBfloat16, in the time of one of
/// fp32: 16 in a matrix unit, 2 by fast dot products. 1 where products of bf16 cost least in fp32.
double products_at_once(DataType compute);
/// The type in which direct sums of tensors of `compute` cost least on this CPU.
DataType fastest_products(DataType compute);

}  // namespace halomesh
