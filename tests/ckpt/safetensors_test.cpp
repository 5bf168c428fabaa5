#include "trireme/ckpt/safetensors.h"

#include <cstring>
#include <fstream>
#include <unistd.h>

#include "helpers.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::ckpt {
namespace {

using testing::ScratchFolder;

const std::vector<at::ScalarType>& dtypes() {
  static const std::vector<at::ScalarType> all = {
      at::kDouble,
      at::kFloat,
      at::kHalf,
      at::kBFloat16,
      at::kFloat8_e4m3fn,
      at::kFloat8_e5m2,
      at::kComplexFloat,
      at::kLong,
      at::kInt,
      at::kShort,
      at::kChar,
      at::ScalarType::UInt64,
      at::ScalarType::UInt32,
      at::ScalarType::UInt16,
      at::kByte,
      at::kBool};
  return all;
}

NamedTensors one_of_each() {
  NamedTensors tensors;
  for (const at::ScalarType dtype : dtypes()) {
    const std::string name = c10::toString(dtype);
    const at::Tensor numbers = at::arange(15, at::kFloat).reshape({3, 5}).sub(4).abs();
    tensors.emplace_back(name, numbers.to(dtype));
    tensors.emplace_back(name + ".scalar", numbers.select(0, 1).select(0, 2).to(dtype));
    tensors.emplace_back(name + ".empty", at::empty({2, 0, 3}, dtype));
    tensors.emplace_back(name + ".transposed", numbers.to(dtype).t());
  }
  return tensors;
}

TEST(Safetensors, EveryDtypeComesBackBitByBit) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const NamedTensors tensors = one_of_each();
  const uint64_t bytes = write_safetensors(path, tensors);
  EXPECT_EQ(bytes, std::filesystem::file_size(path));
  const SafetensorsFile file(path);
  EXPECT_EQ(file.header().tensors.size(), tensors.size());
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
  for (const auto& [name, tensor] : tensors) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(file.has(name));
    expect_same(file.read(name), tensor);
    expect_same(file.view(name), tensor);
  }
  for (const TensorEntry& tensor : file.header().tensors)
    EXPECT_EQ(
        (file.header().data_begin + tensor.begin) % c10::elementSize(tensor.dtype), 0U)
        << tensor.name;
}

TEST(Safetensors, WritesViewsOfAnyKind) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const at::Tensor base = at::arange(24, at::kFloat).reshape({4, 6});
  at::Tensor parameter = at::ones({3});
  parameter.requires_grad_(true);
  const at::Tensor wave = at::complex(base, base.neg());
  const NamedTensors tensors = {
      {"columns", base.slice(1, 1, 6, 2)},
      {"expanded", base.select(0, 2).expand({3, 6})},
      {"conj", wave.conj()},
      {"neg", at::imag(wave.conj())},
      {"parameter", parameter},
      {"tied", base},
      {"tied.again", base}};
  write_safetensors(path, tensors, {});
  const SafetensorsFile file(path);
  for (const auto& [name, tensor] : tensors) {
    SCOPED_TRACE(name);
    expect_same(
        file.read(name), tensor.detach().resolve_conj().resolve_neg().contiguous());
    EXPECT_FALSE(file.read(name).requires_grad());
  }
  EXPECT_TRUE(file.header().metadata.empty());
}

TEST(Safetensors, AViewOutlivesTheFileAndAReadIsOnesOwn) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a.safetensors";
  // More than a page before it, so that its pages do not begin with the file.
  write_safetensors(
      path, {{"a", at::zeros({5000})}, {"b", at::arange(5000, at::kFloat)}});
  at::Tensor view;
  {
    const SafetensorsFile file(path);
    view = file.view("b");
    at::Tensor own = file.read("b");
    own.zero_();
    expect_same(file.read("b"), view);
  }
  std::filesystem::remove(path);
  expect_same(view, at::arange(5000, at::kFloat));
}

TEST(Safetensors, ReadsForeignFilesThatAreNotAligned) {
  const ScratchFolder folder;
  const std::string json = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"BOOL","shape":[3],"data_offsets":[8,11]}})";
  ASSERT_NE((8 + json.size()) % 4, 0U);
  std::string bytes(8, '\0');
  const uint64_t length = json.size();
  std::memcpy(bytes.data(), &length, 8);
  const std::array<float, 2> numbers{1.5F, -2};
  bytes += json + std::string(reinterpret_cast<const char*>(numbers.data()), 8) +
           std::string("\x00\x07\x01", 3);
  const auto path = folder.write("a.safetensors", bytes);
  const SafetensorsFile file(path);
  expect_same(file.view("a"), at::tensor({1.5F, -2.F}));
  expect_same(file.read("a"), at::tensor({1.5F, -2.F}));
  // A byte of 7 in a bool would be neither true nor false to libtorch.
  const at::Tensor bools = at::tensor({0, 1, 1}).to(at::kBool);
  expect_same(file.read("b"), bools);
  expect_same(file.view("b"), bools);
}

TEST(Safetensors, RefusesDamagedFilesByName) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const uint64_t bytes = write_safetensors(path, {{"a", at::zeros({100})}});
  for (const uint64_t kept :
       {bytes - 1, bytes - 400, uint64_t{60}, uint64_t{7}, uint64_t{0}}) {
    std::filesystem::resize_file(path, kept);
    expect_part(refusal([&] { SafetensorsFile file(path); }), path.string());
  }
  expect_part(refusal([&] { SafetensorsFile file(folder.path()); }), "a folder");
  folder.write("b.safetensors", std::string(1000, 'x'));
  expect_part(
      refusal([&] { SafetensorsFile file(folder.path() / "b.safetensors"); }),
      "this is no safetensors file");
}

TEST(Safetensors, NamesTheTensorThatIsNotThere) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a.safetensors";
  write_safetensors(path, {{"a", at::zeros({1})}});
  const SafetensorsFile file(path);
  EXPECT_FALSE(file.has("b"));
  expect_part(
      refusal([&] { file.read("b"); }),
      "expected the tensor \"b\", got 1 others, such as \"a\"");
}

TEST(Safetensors, RefusesTensorsThatTheFormatCannotHold) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const auto refused = [&](const at::Tensor& tensor) {
    return refusal([&] { write_safetensors(path, {{"w", tensor}}); });
  };
  expect_part(refused({}), "expected a dense tensor \"w\", got none");
  expect_part(refused(at::eye(3).to_sparse()), "sparse");
  expect_part(refused(at::empty({1}, at::TensorOptions().device(at::kMeta))), "meta");
  expect_part(refused(at::zeros({1}, at::kComplexDouble)), "got ComplexDouble");
  expect_part(
      refusal([&] {
        write_safetensors(path, {{"w", at::zeros({1})}, {"w", at::ones({1})}});
      }),
      "each name once");
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace trireme::ckpt
