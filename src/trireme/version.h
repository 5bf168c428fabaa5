// The version of the library; CMake reads it from here.
#pragma once
#include <string_view>

namespace trireme {
inline constexpr std::string_view kVersion = "0.1.0";
}  // namespace trireme
