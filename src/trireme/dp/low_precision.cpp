#include "trireme/dp/low_precision.h"

#include <array>
#include <cstring>

#include <ATen/Functions.h>

namespace trireme::dp {
namespace {

/// Of the bytes of a tensor. Several lanes, since one would wait for itself.
uint64_t hash_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  const auto* bytes = static_cast<const char*>(flat.const_data_ptr());
  const size_t size = flat.nbytes();
  std::array<uint64_t, 4> lanes{1, 2, 3, 4};
  const auto mix = [](uint64_t& lane, uint64_t word) {
    lane = (lane ^ word) * 0xbf58476d1ce4e5b9ULL;
    lane ^= lane >> 29;
  };
  size_t done = 0;
  for (std::array<uint64_t, 4> words{}; done + sizeof words <= size;
       done += sizeof words) {
    std::memcpy(words.data(), bytes + done, sizeof words);
    for (size_t k = 0; k < lanes.size(); ++k)
      mix(lanes[k], words[k]);
  }
  uint64_t hash = size;
  for (; done < size; ++done)
    mix(hash, static_cast<unsigned char>(bytes[done]));
  for (const uint64_t lane : lanes)
    mix(hash, lane);
  return hash;
}

}  // namespace

LowPrecisionScope::LowPrecisionScope(
    const std::vector<Parameter>& parameters, c10::ScalarType dtype) {
  for (const Parameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    if (!c10::isFloatingType(tensor.scalar_type()) || tensor.scalar_type() == dtype)
      continue;
    if (!index_.emplace(tensor.unsafeGetTensorImpl(), tensors_.size()).second)
      continue;  // shared under another name
    names_.push_back(parameter.name);
    tensors_.push_back(tensor);
    full_.push_back(tensor.detach());
  }
  made_.resize(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i)
    make_copy(i, dtype);
}

void LowPrecisionScope::make_copy(size_t i, c10::ScalarType dtype) {
  tensors_[i].set_data(full_[i].to(dtype));
  made_[i] = hash_of(tensors_[i]);
}

LowPrecisionScope::~LowPrecisionScope() {
  for (size_t i = 0; i < tensors_.size(); ++i)
    tensors_[i].set_data(full_[i]);
}

at::Tensor LowPrecisionScope::full(const at::Tensor& parameter) const {
  const auto found = index_.find(parameter.unsafeGetTensorImpl());
  return found == index_.end() ? parameter : full_[found->second];
}

void LowPrecisionScope::refresh() {
  for (size_t i = 0; i < tensors_.size(); ++i)
    make_copy(i, tensors_[i].scalar_type());
}

std::vector<std::string> LowPrecisionScope::changed() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (hash_of(tensors_[i]) != made_[i])
      names.push_back(names_[i]);
  return names;
}

at::Tensor cast_floating(const at::Tensor& tensor, c10::ScalarType dtype) {
  if (!tensor.defined() || !c10::isFloatingType(tensor.scalar_type()))
    return tensor;
  return tensor.to(dtype);
}

}  // namespace trireme::dp
