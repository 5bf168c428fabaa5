#include "trireme/pipe/named_tensors.h"

#include <algorithm>
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

std::string list_names(const std::vector<std::string>& names) {
  constexpr size_t kMost = 12;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
    out += text(i == 0 ? "" : ", ", names[i]);
  if (names.size() > kMost)
    out += text(", ... (", names.size(), " in all)");
  return out.empty() ? "none" : out;
}

}  // namespace trireme::pipe
