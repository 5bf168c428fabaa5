#include "trireme/rpc/signature.h"

#include "trireme/core/mix.h"

namespace trireme::rpc {

std::uint64_t signature_hash(std::string_view text) {
  std::uint64_t hash = kMixStep;
  for (const char letter : text)
    hash = mix(hash + static_cast<unsigned char>(letter) + kMixStep);
  return hash;
}

}  // namespace trireme::rpc
