#include "trireme/model/registry.h"

#include <gtest/gtest.h>

#include "small_models.h"
#include "trireme/core/error.h"
#include "trireme/model/config_object.h"
#include "trireme/model/gpt2.h"
#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

using testing::contains;
using testing::message_of;

TEST(Registry, PicksByModelType) {
  const ModelPlan gpt2 = plan_model(to_json(small_gpt2()));
  EXPECT_EQ(gpt2.type, "gpt2");
  EXPECT_EQ(gpt2.vocab_size, 61);
  EXPECT_EQ(gpt2.max_positions, 32);
  const ModelPlan llama = plan_model(to_json(small_llama()));
  EXPECT_EQ(llama.type, "llama");
  EXPECT_EQ(llama.layers[1].name, "model.layers.0");
}

TEST(Registry, KeepsTheTextAndCompletesIt) {
  const ModelPlan plan =
      plan_model(R"({"model_type": "gpt2", "n_layer": 1, "eos_token_id": [3, 4],
                     "architectures": ["GPT2Model"]})");
  const ConfigObject config = ConfigObject::parse(plan.config_json);
  EXPECT_TRUE(config.has("eos_token_id"));
  EXPECT_EQ(config.json_of("architectures"), R"(["GPT2LMHeadModel"])");
  EXPECT_EQ(config.whole("n_layer", 0), 1);
  EXPECT_EQ(config.whole("n_embd", 0), 768);
}

TEST(Registry, ASavedConfigNamesItsDtype) {
  const ModelPlan plan = plan_gpt2(small_gpt2());
  const ConfigObject config =
      ConfigObject::parse(config_for_saving(plan, at::kBFloat16));
  EXPECT_EQ(config.word("dtype", ""), "bfloat16");
  EXPECT_EQ(config.word("torch_dtype", ""), "bfloat16");
  EXPECT_EQ(config.word("model_type", ""), "gpt2");
  EXPECT_THROW(config_for_saving(plan, at::kLong), InvalidArgument);
}

TEST(Registry, NamesWhatItDoesNotKnow) {
  const std::string unknown =
      message_of<NotSupported>([] { plan_model(R"({"model_type": "bert"})"); });
  EXPECT_TRUE(contains(
      unknown, R"(expected a known "model_type", got "bert"; there are gpt2, llama)"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { plan_model("{}"); }),
      R"(expected "model_type" to be one of gpt2, llama)"));
  EXPECT_THROW(plan_model(R"({"model_type": 3})"), InvalidArgument);
  EXPECT_THROW(plan_model("no json"), InvalidArgument);
}

TEST(Registry, TakesModelsOfOnesOwn) {
  register_model("registry_test", [](const std::string& json) {
    ModelPlan plan = plan_gpt2(small_gpt2());
    plan.type = "registry_test";
    plan.config_json = json;
    return plan;
  });
  EXPECT_EQ(plan_model(R"({"model_type": "registry_test"})").type, "registry_test");
  const auto types = model_types();
  EXPECT_EQ(std::count(types.begin(), types.end(), "registry_test"), 1);
  const Planner any = [](const std::string&) { return ModelPlan{}; };
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { register_model("gpt2", any); }),
      "got \"gpt2\", which is known"));
  EXPECT_THROW(register_model("", any), InvalidArgument);
  EXPECT_THROW(register_model("x", nullptr), InvalidArgument);
}

}  // namespace
}  // namespace trireme::model
