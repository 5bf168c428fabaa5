// Small files, read and written whole.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace trireme::train {

/// All of a file; nothing if it is none that can be read, as a folder.
std::optional<std::string> read_file(const std::filesystem::path& path);

/// Writes a file under another name first, so that readers see the whole or nothing.
void write_file(const std::filesystem::path& path, const std::string& contents);

}  // namespace trireme::train
