#include "trireme/ckpt/manifest.h"

#include "helpers.h"

namespace trireme::ckpt {
namespace {

TEST(Manifest, ComesBack) {
  const Manifest manifest{
      .step = 1234567890123,
      .stages = 2,
      .files = {{"a", 0}, {"b.safetensors", uint64_t{1} << 40}}};
  const Manifest back = parse_manifest(write_manifest(manifest), "m");
  EXPECT_EQ(back.step, manifest.step);
  EXPECT_EQ(back.stages, 2);
  EXPECT_EQ(back.files, manifest.files);
  EXPECT_TRUE(parse_manifest(write_manifest({}), "m").files.empty());
}

TEST(Manifest, RefusesOtherTextByName) {
  const auto refused = [](const std::string& json) {
    return refusal([&] { parse_manifest(json, "m.json"); });
  };
  expect_part(refused(""), "m.json: expected JSON");
  expect_part(refused("[]"), "an object");
  expect_part(refused("{}"), "a member \"format\"");
  expect_part(refused(R"({"format":"trireme checkpoint 9"})"), "a newer Trireme");
  const auto body = [](const std::string& rest) {
    return text(R"({"format":"trireme checkpoint 1",)", rest, "}");
  };
  expect_part(refused(body(R"("step":-1,"stages":1,"files":{})")), "\"step\"");
  expect_part(refused(body(R"("step":1,"stages":1e9,"files":{})")), "\"stages\"");
  expect_part(refused(body(R"("step":1,"stages":1,"files":[])")), "\"files\"");
  expect_part(
      refused(body(R"("step":1,"stages":1,"files":{"../x":1})")),
      "files of this folder, got \"../x\"");
  expect_part(
      refused(body(R"("step":1,"stages":1,"files":{"x":"1"})")), "the size of \"x\"");
}

}  // namespace
}  // namespace trireme::ckpt
