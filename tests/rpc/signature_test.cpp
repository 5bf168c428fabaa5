#include "trireme/rpc/signature.h"

#include <set>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using testing::message_of;

struct Later {};  // stands for a future of int
struct Crew {
  int rowers = 0;
};

}  // namespace

template <>
struct WireResult<Later> {
  using type = int;
};
template <>
struct Fields<Crew> {
  static constexpr auto name = "Crew";
  static constexpr int version = 7;
  static constexpr auto members = std::tuple(&Crew::rowers);
};

namespace {

TEST(Signature, NamesWhatAFunctionTakesAndGives) {
  EXPECT_EQ(
      (signature_of<at::Tensor(int, const at::Tensor&)>().text),
      "(int, tensor) -> tensor");
  EXPECT_EQ(signature_of<void()>().text, "() -> nothing");
  EXPECT_EQ(
      (signature_of<std::vector<double>(
           std::string&&, std::map<int, bool>, const std::optional<float>&)>()
           .text),
      "(string, map<int, bool>, optional<float>) -> list<float>");
  EXPECT_EQ(signature_of<Crew(const Crew)>().text, "(Crew v7) -> Crew v7");
}

TEST(Signature, AResultMayStandForAnother) {
  EXPECT_EQ(signature_of<Later()>().text, "() -> int");
  EXPECT_EQ(signature_of<Later()>(), signature_of<std::int64_t()>());
}

TEST(Signature, IsMadeOnce) {
  EXPECT_EQ(&signature_of<void(int)>(), &signature_of<void(int)>());
}

TEST(Signature, TheNumberFollowsFromTheText) {
  // Workers of other builds compare it: it must never change.
  EXPECT_EQ(signature_hash("() -> nothing"), signature_of<void()>().hash);
  EXPECT_EQ(signature_hash("(int, tensor) -> tensor"), 13883430073702971859u);
  std::set<std::uint64_t> numbers;
  for (const char* text :
       {"", "a", "b", "aa", "ab", "ba", "(int) -> int", "(int) -> int "})
    numbers.insert(signature_hash(text));
  EXPECT_EQ(numbers.size(), 8u);
}

TEST(Signature, ArgumentsTravelInTheirOrder) {
  ValueWriter writer;
  const at::Tensor first = at::ones({1});
  const at::Tensor second = at::ones({2});
  write_arguments(writer, 1, first, std::string("x"), second);
  const Values values = writer.take();
  ValueReader reader(values, "the arguments of a call");
  const auto arguments =
      read_arguments<int, const at::Tensor&, const std::string&, at::Tensor>(reader);
  static_assert(std::same_as<
                decltype(arguments),
                const std::tuple<int, at::Tensor, std::string, at::Tensor>>);
  EXPECT_EQ(std::get<0>(arguments), 1);
  EXPECT_TRUE(std::get<1>(arguments).is_same(first));
  EXPECT_EQ(std::get<2>(arguments), "x");
  EXPECT_TRUE(std::get<3>(arguments).is_same(second));
}

TEST(Signature, ArgumentsAreConvertedToTheTypesOfTheFunction) {
  ValueWriter writer;
  write_arguments<double, std::string>(writer, 1, "one");
  const Values values = writer.take();
  ValueReader reader(values, "the arguments of a call");
  EXPECT_EQ(
      (read_arguments<double, std::string>(reader)),
      (std::tuple<double, std::string>(1, "one")));
}

TEST(Signature, NoArgumentsAreNoBytes) {
  ValueWriter writer;
  write_arguments(writer);
  const Values values = writer.take();
  EXPECT_TRUE(values.bytes.empty());
  ValueReader reader(values, "the arguments of a call");
  EXPECT_EQ(read_arguments<>(reader), std::tuple<>());
}

TEST(Signature, TooManyAndTooFewArgumentsAreRefused) {
  ValueWriter writer;
  write_arguments(writer, 1, 2);
  const Values two = writer.take();
  ValueReader few(two, "the arguments of a call");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { read_arguments<int>(few); }),
      "[net] expected the end of the arguments of a call after 8 bytes, got 8 more; "
      "the bytes are damaged, or of another version");
  ValueReader many(two, "the arguments of a call");
  EXPECT_THROW((read_arguments<int, int, int>(many)), InvalidArgument);
  write_arguments(writer, at::ones({1}));
  const Values tensor = writer.take();
  ValueReader none(tensor, "the arguments of a call");
  EXPECT_THROW(read_arguments<>(none), InvalidArgument);
}

}  // namespace
}  // namespace trireme::rpc
