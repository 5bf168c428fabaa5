// Small files, read whole. (ckpt/durable_file.h writes them.)
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace trireme::train {

/// All of a file; nothing if it is none that can be read, as a folder.
std::optional<std::string> read_file(const std::filesystem::path& path);

}  // namespace trireme::train
