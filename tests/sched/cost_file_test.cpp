// The cost file: what comes back, and what is refused by name.
#include "trireme/sched/cost_file.h"

#include "helpers.h"

namespace trireme::sched {
namespace {

std::string refused(const std::string& json) {
  return refusal([&] { parse_costs(json, "c.json"); });
}

TEST(CostFile, ReadsAllFields) {
  const CostFile file = parse_costs(
      R"({"version":1,"message_bytes":64,
          "stages":[{"forward":1,"input_grad":2,"weight_grad":3},
                    {"forward":4,"input_grad":5,"weight_grad":6,"backward":10,
                     "activation_bytes":7,"weight_bytes":8}],
          "links":[{"from":0,"to":1,"latency":0.5,"bandwidth":1e9},{"from":1,"to":0}],
          "layers":[{"name":"embedding","forward":1,"input_grad":1,"weight_grad":1}]})",
      "c.json");
  ASSERT_EQ(file.costs.stages.size(), 2U);
  EXPECT_EQ(file.costs.stages[0].backward, 5);
  EXPECT_EQ(file.costs.stages[0].activation_bytes, 0);
  EXPECT_EQ(file.costs.stages[1].backward, 10);
  EXPECT_EQ(file.costs.stages[1].weight_bytes, 8);
  EXPECT_EQ(file.costs.message_bytes, 64);
  ASSERT_EQ(file.costs.links.size(), 2U);
  EXPECT_EQ(file.costs.links[0].bandwidth, 1e9);
  EXPECT_EQ(file.costs.links[1].bandwidth, std::numeric_limits<double>::infinity());
  ASSERT_EQ(file.layers.size(), 1U);
  EXPECT_EQ(file.layers[0].name, "embedding");
  EXPECT_EQ(file.layers[0].costs.time(), 3);
}

TEST(CostFile, ComesBackExactly) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> number(0, 1);
  for (int round = 0; round < 50; ++round) {
    CostFile file;
    file.costs.stages.clear();
    for (int i = 0; i < round % 4; ++i)
      file.costs.stages.push_back(
          {.forward = number(random),
           .input_grad = number(random) * 1e-9,
           .weight_grad = number(random) * 1e9,
           .backward = number(random),
           .activation_bytes = number(random),
           .weight_bytes = number(random)});
    for (int i = 0; i < 1 + round % 3; ++i)
      file.layers.push_back(
          {.name = text("layer \"", i, "\" ü"), .costs = {.forward = number(random)}});
    file.costs.links = {
        {.from = 0, .to = 1, .latency = number(random)},
        {.from = 1, .to = 0, .bandwidth = number(random)}};
    file.costs.message_bytes = number(random);
    const std::string json = to_json(file);
    const CostFile back = parse_costs(json, "x");
    EXPECT_EQ(to_json(back), json);
    ASSERT_EQ(back.costs.stages.size(), file.costs.stages.size());
    for (size_t i = 0; i < back.costs.stages.size(); ++i) {
      EXPECT_EQ(back.costs.stages[i].input_grad, file.costs.stages[i].input_grad);
      EXPECT_EQ(back.costs.stages[i].backward, file.costs.stages[i].backward);
    }
    EXPECT_EQ(back.costs.links[1].bandwidth, file.costs.links[1].bandwidth);
    EXPECT_EQ(back.costs.links[0].bandwidth, std::numeric_limits<double>::infinity());
    EXPECT_EQ(back.layers[0].name, file.layers[0].name);
  }
}

TEST(CostFile, NamesWhatIsWrong) {
  const auto wrong = [](const std::string& json, const std::string& part) {
    const std::string message = refused(json);
    EXPECT_TRUE(contains(message, part)) << json << ": " << message;
    EXPECT_TRUE(contains(message, "[sched] c.json")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  const std::string stage = R"({"forward":1,"input_grad":1,"weight_grad":1})";
  wrong("", "expected JSON");
  wrong("{", "expected JSON");
  wrong("[1]", "an object");
  wrong("null", "an object");
  wrong("{}", "\"version\"");
  wrong(R"({"version":2,"stages":[]})", "version 1");
  wrong(R"({"version":"1"})", "\"version\"");
  wrong(R"({"version":1.5})", "whole number");
  wrong(R"({"version":1})", "stages or layers");
  wrong(R"({"version":1,"stages":[]})", "stages or layers");
  wrong(R"({"version":1,"stages":{}})", "\"stages\" to be a list");
  wrong(R"({"version":1,"stages":[3]})", "stage 0: expected an object");
  wrong(
      text(R"({"version":1,"stages":[)", stage, R"(,{"forward":1,"input_grad":1}]})"),
      "stage 1: expected a number \"weight_grad\"");
  wrong(
      R"({"version":1,"stages":[{"forward":NaN,"input_grad":1,"weight_grad":1}]})",
      "expected JSON");
  wrong(
      R"({"version":1,"stages":[{"forward":1e999,"input_grad":1,"weight_grad":1}]})",
      "expected JSON");
  wrong(
      R"({"version":1,"stages":[{"forward":null,"input_grad":1,"weight_grad":1}]})",
      "stage 0: expected \"forward\"");
  wrong(
      R"({"version":1,"stages":[{"forward":"1","input_grad":1,"weight_grad":1}]})",
      "expected \"forward\" to be a number");
  wrong(
      R"({"version":1,"stages":[{"forward":-1,"input_grad":1,"weight_grad":1}]})",
      "at least 0");
  wrong(
      R"({"version":1,"stages":[{"forward":1,"input_grad":1,"weight_grad":1,"x":1}]})",
      "known fields only");
  wrong(text(R"({"version":1,"stagess":[],"stages":[)", stage, "]}"), "stagess");
  wrong(
      text(R"({"version":1,"stages":[)", stage, R"(],"links":[{"from":0.5,"to":1}]})"),
      "link 0: expected \"from\" to be a whole number");
  wrong(
      text(R"({"version":1,"stages":[)", stage, R"(],"links":[{"to":1}]})"),
      "a number \"from\"");
  wrong(
      text(R"({"version":1,"layers":[{"name":3,"forward":1}]})"),
      "layer 0: expected \"name\" to be a text");
}

TEST(CostFile, SaysWhereItIsNoJson) {
  EXPECT_EQ(
      refused("{\"version\":1,\n"),
      "[sched] c.json, line 2, column 1: expected JSON, got text that is not: "
      "unexpected end of input; expected string literal; correct the file");
  const auto expect_place = [](const std::string& json, const std::string& place) {
    const std::string message = refused(json);
    EXPECT_TRUE(message.starts_with("[sched] c.json, " + place + ": ")) << message;
    EXPECT_FALSE(contains(message, "json.exception")) << message;
    EXPECT_FALSE(contains(message, "parse error")) << message;
  };
  expect_place("", "line 1, column 1");
  expect_place("[1,\n 2", "line 2, column 3");
  expect_place("{\"version\" 1}", "line 1, column 12");
  expect_place("{\"version\":\n\n  NaN}", "line 3, column 3");
  // The end of a number that is none.
  expect_place("{\"version\":1,\n\"message_bytes\":1e999}", "line 2, column 21");
  expect_place("{\"name\":\"\xff\"}", "line 1, column 10");
}

TEST(CostFile, LayersAloneLeaveTheStagesOpen) {
  const CostFile file = parse_costs(
      R"({"version":1,"layers":[{"forward":1,"input_grad":1,"weight_grad":1}]})", "c");
  EXPECT_TRUE(file.costs.stages.empty());
  EXPECT_EQ(file.layers.size(), 1U);
}

}  // namespace
}  // namespace trireme::sched
