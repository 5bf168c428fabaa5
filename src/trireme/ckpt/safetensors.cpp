#include "trireme/ckpt/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::ckpt {
namespace {

SafetensorsHeader read_header(const InputFile& file) {
  const std::string name = file.path().string();
  std::string bytes(std::min<uint64_t>(file.bytes(), sizeof(uint64_t)), '\0');
  file.read(bytes.data(), bytes.size(), 0);
  const size_t have = bytes.size();
  bytes.resize(safetensors_header_bytes(bytes, file.bytes(), name));
  file.read(bytes.data() + have, bytes.size() - have, have);
  return parse_safetensors_header(bytes, file.bytes(), name);
}

// Any byte but 0 is true: libtorch relies on bools being 0 or 1.
at::Tensor as_bools(const at::Tensor& bytes) {
  return bytes.ne(0);
}

// What goes to the file: dense bytes in the memory of the host.
at::Tensor as_bytes(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), header_(read_header(file_)) {
  for (size_t i = 0; i < header_.tensors.size(); ++i)
    index_.emplace(header_.tensors[i].name, i);
}

const TensorEntry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = index_.find(name);
  if (found == index_.end())
    throw InvalidArgument(text(
        "[ckpt] ",
        in_quotes(path().string()),
        ": expected the tensor ",
        in_quotes(name),
        ", got ",
        index_.size(),
        " others",
        index_.empty() ? "" : ", such as ",
        index_.empty() ? "" : in_quotes(header_.tensors.front().name),
        "; ask for one that the file has"));
  return header_.tensors[found->second];
}

at::Tensor SafetensorsFile::read(const std::string& name) const {
  const TensorEntry& wanted = entry(name);
  const bool is_bool = wanted.dtype == at::kBool;
  const at::Tensor tensor =
      at::empty(wanted.sizes, at::TensorOptions(is_bool ? at::kByte : wanted.dtype));
  file_.read(
      tensor.mutable_data_ptr(), wanted.bytes(), header_.data_begin + wanted.begin);
  return is_bool ? as_bools(tensor) : tensor;
}

at::Tensor SafetensorsFile::view(const std::string& name) const {
  const TensorEntry& wanted = entry(name);
  const uint64_t begin = header_.data_begin + wanted.begin;
  if (wanted.bytes() == 0 || wanted.dtype == at::kBool ||
      begin % c10::elementSize(wanted.dtype) != 0)
    return read(name);
  const uint64_t slack = begin % static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t length = slack + wanted.bytes();
  void* pages = ::mmap(
      nullptr,
      length,
      PROT_READ,
      MAP_SHARED,
      file_.fd(),
      static_cast<off_t>(begin - slack));
  if (pages == MAP_FAILED)
    throw InvalidArgument(text(
        "[ckpt] expected to map ",
        in_quotes(path().string()),
        ", got ",
        errno_text(errno),
        "; read() copies instead"));
  return at::from_blob(
      static_cast<char*>(pages) + slack,
      wanted.sizes,
      [pages, length](void*) { ::munmap(pages, length); },
      at::TensorOptions(wanted.dtype));
}

TensorEntry describe_tensor(const std::string& name, const at::Tensor& tensor) {
  const bool dense = tensor.defined() && tensor.layout() == at::kStrided &&
                     !tensor.is_quantized() && !tensor.is_meta();
  if (!dense)
    throw InvalidArgument(text(
        "[ckpt] expected a dense tensor ",
        in_quotes(name),
        ", got ",
        tensor.defined() ? "a sparse, quantized or meta one" : "none",
        "; convert it, or leave it out"));
  try {
    safetensors_dtype(tensor.scalar_type());
  } catch (const InvalidArgument&) {
    throw InvalidArgument(text(
        "[ckpt] expected a dtype that safetensors has for the tensor ",
        in_quotes(name),
        ", got ",
        c10::toString(tensor.scalar_type()),
        "; convert it first"));
  }
  return {.name = name, .dtype = tensor.scalar_type(), .sizes = tensor.sizes().vec()};
}

uint64_t write_safetensors(
    const std::filesystem::path& path,
    const NamedTensors& tensors,
    const std::map<std::string, std::string>& metadata) {
  const std::string name = path.string();
  SafetensorsHeader header{.metadata = metadata};
  std::unordered_map<std::string, const at::Tensor*> by_name;
  for (const auto& [tensor_name, tensor] : tensors) {
    header.tensors.push_back(describe_tensor(tensor_name, tensor));
    by_name[tensor_name] = &tensor;
  }
  lay_out(header, name);
  DurableFile file(path);
  file.write(write_safetensors_header(header, name));
  for (const TensorEntry& entry : header.tensors) {
    const at::Tensor bytes = as_bytes(*by_name.at(entry.name));
    TRIREME_ASSERT(bytes.nbytes() == entry.bytes());
    file.write({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()});
  }
  file.finish();
  return file.bytes();
}

}  // namespace trireme::ckpt
