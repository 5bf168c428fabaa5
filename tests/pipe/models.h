// Small models for the tests of pipe. They are made in models.cpp, so that not every
// test pays for torch's headers of modules.
#pragma once
#include <cstdint>
#include <string>

#include "trireme/pipe/layers.h"

namespace trireme::pipe {

/// torch's Linear, BatchNorm1d and Dropout.
Layer linear(const std::string& name, int64_t in, int64_t out);
Layer batch_norm(const std::string& name, int64_t features);
Layer dropout(const std::string& name, double p);
/// A function without parameters.
Layer gelu(const std::string& name);
/// Another layer with the same module.
Layer shared(const std::string& name, const Layer& with);

/// fc0, gelu0, fc1, gelu1 and so on.
LayerList mlp(int blocks, int64_t width);

/// The names of the layers of each stage: "fc0 gelu0 | fc1 gelu1".
std::string outline(const std::vector<LayerList>& stages);

/// Random numbers that are always the same, without touching torch's own.
at::Tensor numbers(at::IntArrayRef sizes, uint64_t seed = 1);

}  // namespace trireme::pipe
