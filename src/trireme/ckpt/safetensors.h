// Tensors in safetensors files, read one by one and written as a stream.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/ckpt/safetensors_header.h"
#include "trireme/core/durable_file.h"

namespace trireme::ckpt {

/// Tensors under their names in the whole model; the same type as pipe's.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// A file that is open. Its header is checked when it is opened; tensors are read when
/// they are asked for. May be used from several threads.
///
///     const SafetensorsFile file("model.safetensors");
///     for (const TensorEntry& tensor : file.header().tensors)
///       std::cout << tensor.name << ' ' << tensor.bytes() << '\n';
///     at::Tensor weight = file.read("lm_head.weight");
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }
  bool has(const std::string& name) const { return index_.contains(name); }
  /// InvalidArgument for a name that is not there.
  const TensorEntry& entry(const std::string& name) const;

  /// A tensor of its own memory.
  at::Tensor read(const std::string& name) const;

  /// The tensor in the file's own pages, which it keeps mapped, also when this object
  /// is gone. For reading only: to write to it ends the process, and so may cutting the
  /// file. A tensor that cannot stay where it is (misaligned by a foreign writer, or of
  /// bools, which may hold any byte) is copied instead.
  at::Tensor view(const std::string& name) const;

 private:
  InputFile file_;
  SafetensorsHeader header_;
  std::unordered_map<std::string, size_t> index_;
};

/// Writes a file: whole or not at all, and on the disk when it returns. Tensors may
/// have any strides and lie on any device; one that shares its memory with another is
/// written under both names. Tensors are laid out so that each is aligned.
///
///     write_safetensors("model.safetensors", {{"weight", weight}});
///
/// Returns the size of the file.
uint64_t write_safetensors(
    const std::filesystem::path& path,
    const NamedTensors& tensors,
    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

/// What the file would say of a tensor, without its place; InvalidArgument for one that
/// safetensors cannot hold (sparse, quantized, undefined, …).
TensorEntry describe_tensor(const std::string& name, const at::Tensor& tensor);

}  // namespace trireme::ckpt
