// The index of Megatron's token files: a pure function of bytes, which nothing trusts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "trireme/data/token_layout.h"

namespace trireme::data {

/// What an index begins with.
inline constexpr std::string_view kMegatronMagic{"MMIDIDX\0\0", 9};

struct MegatronIndex {
  /// Of the .bin file.
  TokenLayout tokens;
  int64_t sequences = 0;
  int64_t documents = 0;
};

/// A whole .idx file of Megatron, with the size of the .bin file beside it. The
/// sequences must lie one after the other and fill that file, as Megatron writes them.
MegatronIndex parse_megatron(
    std::span<const std::byte> index, uint64_t bin_bytes, const std::string& file);

}  // namespace trireme::data
