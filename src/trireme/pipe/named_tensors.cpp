#include "trireme/pipe/named_tensors.h"

#include <set>

#include "trireme/core/error.h"

namespace trireme::pipe {

std::string join_name(std::string_view prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : text(prefix, ".", name);
}

NamedTensors without_repeats(const NamedTensors& tensors) {
  NamedTensors out;
  std::set<const void*> seen;
  for (const auto& [name, tensor] : tensors)
    if (seen.insert(tensor.unsafeGetTensorImpl()).second)
      out.emplace_back(name, tensor);
  return out;
}

}  // namespace trireme::pipe
