#include "trireme/ckpt/weight_files.h"

#include "helpers.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::ckpt {
namespace {

using testing::ScratchFolder;

TEST(WeightFiles, NamesAsTransformersDoes) {
  EXPECT_EQ(shard_name("model", 1, 3), "model-00001-of-00003.safetensors");
  EXPECT_EQ(shard_name("optimizer", 12, 12), "optimizer-00012-of-00012.safetensors");
  EXPECT_EQ(single_name("model"), "model.safetensors");
  EXPECT_EQ(index_name("model"), "model.safetensors.index.json");
}

TEST(WeightFiles, ReadsOneFile) {
  const ScratchFolder folder;
  write_safetensors(
      folder.path() / "model.safetensors",
      {{"b", at::ones({2})}, {"a", at::zeros({3})}});
  const WeightFiles weights(folder.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b"}));
  expect_same(weights.read("b"), at::ones({2}));
  expect_same(weights.view("b"), at::ones({2}));
  EXPECT_EQ(weights.entry("a").sizes, (std::vector<int64_t>{3}));
  EXPECT_TRUE(weights.has("a"));
  EXPECT_FALSE(weights.has("c"));
  expect_part(refusal([&] { weights.read("c"); }), "expected the tensor \"c\", got 2");
}

void write_two(const ScratchFolder& folder, const std::string& stem) {
  for (int i = 1; i <= 2; ++i)
    write_safetensors(
        folder.path() / shard_name(stem, i, 2), {{text("w", i), at::full({4}, i)}});
  folder.write(
      index_name(stem),
      write_weight_index(
          {.total_bytes = 64,
           .files = {{"w1", shard_name(stem, 1, 2)}, {"w2", shard_name(stem, 2, 2)}}}));
}

TEST(WeightFiles, ReadsShardsThroughTheIndex) {
  const ScratchFolder folder;
  write_two(folder, "optimizer");
  const WeightFiles weights(folder.path(), "optimizer");
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"w1", "w2"}));
  expect_same(weights.read("w2"), at::full({4}, 2));
}

TEST(WeightFiles, TakesTheSingleFileFirstAsTransformersDoes) {
  const ScratchFolder folder;
  write_two(folder, "model");
  write_safetensors(folder.path() / "model.safetensors", {{"only", at::ones({1})}});
  EXPECT_EQ(WeightFiles(folder.path()).names(), (std::vector<std::string>{"only"}));
}

TEST(WeightFiles, NamesTheFileThatIsWrong) {
  const ScratchFolder folder;
  write_two(folder, "model");
  const auto second = folder.path() / shard_name("model", 2, 2);
  write_safetensors(second, {{"other", at::ones({1})}});
  const std::string message = refusal([&] { WeightFiles weights(folder.path()); });
  expect_part(message, second.string());
  expect_part(message, "expected the tensor \"w2\"");
  std::filesystem::remove(second);
  expect_part(refusal([&] { WeightFiles weights(folder.path()); }), second.string());
}

TEST(WeightFiles, SaysWhatAFolderHasInstead) {
  const ScratchFolder folder;
  expect_part(
      refusal([&] { WeightFiles weights(folder.path()); }),
      "expected model.safetensors or model.safetensors.index.json, got neither");
  expect_part(
      refusal([&] { WeightFiles weights(folder.path() / "no"); }), "got no folder");
  folder.write("pytorch_model.bin", "");
  expect_part(refusal([&] { WeightFiles weights(folder.path()); }), "save_pretrained");
}

TEST(WeightIndex, ComesBack) {
  const WeightIndex index{.total_bytes = 12, .files = {{"a", "x.safetensors"}}};
  const std::string json = write_weight_index(index);
  EXPECT_EQ(
      json,
      "{\n  \"metadata\": {\n    \"total_size\": 12\n  },\n"
      "  \"weight_map\": {\n    \"a\": \"x.safetensors\"\n  }\n}\n");
  const WeightIndex back = parse_weight_index(json, "i");
  EXPECT_EQ(back.files, index.files);
  EXPECT_EQ(back.total_bytes, 12U);
  EXPECT_EQ(parse_weight_index(R"({"weight_map":{}})", "i").total_bytes, 0U);
  EXPECT_EQ(
      parse_weight_index(R"({"metadata":{"total_size":1.5},"weight_map":{}})", "i")
          .total_bytes,
      0U);
}

TEST(WeightIndex, RefusesFilesOutsideTheFolder) {
  for (const char* file :
       {"\"/etc/passwd\"", "\"../x\"", "\"a/b\"", "\"..\"", "\"\"", "3", "null"}) {
    const std::string message = refusal([&] {
      parse_weight_index(text(R"({"weight_map":{"w":)", file, "}}"), "i.json");
    });
    expect_part(message, "i.json: expected the tensor \"w\" to lie in a file");
  }
  expect_part(refusal([] { parse_weight_index("{}", "i"); }), "\"weight_map\"");
  expect_part(
      refusal([] { parse_weight_index(R"({"weight_map":[]})", "i"); }), "an object");
  expect_part(refusal([] { parse_weight_index("[]", "i"); }), "an object");
}

}  // namespace
}  // namespace trireme::ckpt
