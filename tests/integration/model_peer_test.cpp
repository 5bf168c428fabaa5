// Models of transformers give the same logits, loss and gradients here, and those saved
// here the same there: tests/peer/transformers_models.py makes and checks them.
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "trireme/ckpt/weight_files.h"
#include "trireme/core/error.h"
#include "trireme/model/build_stages.h"
#include "trireme/model/registry.h"
#include "trireme/model/weights.h"
#include "trireme/testing/peer.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::model {
namespace {

namespace fs = std::filesystem;

/// A folder that transformers has written, and what is expected of it.
struct Case {
  explicit Case(const fs::path& folder)
      : name(folder.filename().string()),
        plan(plan_model(read_file(folder / "config.json", 1 << 20))),
        files(folder),
        expected(folder, "expected"),
        dtype(files.entry(files.names().front()).dtype) {}

  std::vector<pipe::LayerList> build(
      const std::vector<sched::LayerRange>& ranges) const {
    auto stages = build_stages(plan, ranges, {.dtype = dtype, .initialise = false});
    load_weights(stages, plan, files);
    for (const pipe::LayerList& stage : stages)
      for (const pipe::Layer& layer : stage)
        layer.module->eval();
    return stages;
  }
  int last() const { return static_cast<int>(plan.layers.size()); }

  std::string name;
  ModelPlan plan;
  ckpt::WeightFiles files;
  ckpt::WeightFiles expected;
  at::ScalarType dtype;
};

void expect_close(
    const at::Tensor& got, const at::Tensor& wanted, const std::string& what) {
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  ASSERT_EQ(got.scalar_type(), wanted.scalar_type()) << what;
  // Of bfloat16's 8 bits a few are lost where it rounds after another step.
  const bool low = got.scalar_type() == at::kBFloat16;
  const double rtol = low ? 0.02 : 1.3e-6, atol = low ? 0.02 : 1e-5;
  EXPECT_TRUE(at::allclose(got.to(at::kFloat), wanted.to(at::kFloat), rtol, atol))
      << what << ": they differ by " << (got - wanted).abs().max().item<double>();
}

class ModelPeer : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!testing::peer_missing({"transformers"}).empty())
      return;
    made_ = std::make_unique<testing::ScratchFolder>();
    testing::run_peer({TRANSFORMERS_MODELS, "make", made_->path().string()});
  }
  static void TearDownTestSuite() { made_.reset(); }
  void SetUp() override {
    if (!made_)
      GTEST_SKIP() << testing::peer_missing({"transformers"});
    for (const auto& entry : fs::directory_iterator(made_->path()))
      cases_.emplace_back(entry.path());
    ASSERT_EQ(cases_.size(), 15U);
  }
  static std::unique_ptr<testing::ScratchFolder> made_;
  std::vector<Case> cases_;
};
std::unique_ptr<testing::ScratchFolder> ModelPeer::made_;

TEST_F(ModelPeer, LogitsLossAndGradientsAreTransformers) {
  for (const Case& one : cases_) {
    const pipe::LayerList layers = one.build({{0, one.last()}})[0];
    const at::Tensor logits =
        pipe::run_layers(layers, {one.expected.read("tokens")}).at(0);
    expect_close(logits, one.expected.read("logits"), text(one.name, " logits"));
    const at::Tensor loss = at::cross_entropy_loss(
        logits.flatten(0, 1), one.expected.read("targets").flatten());
    expect_close(loss, one.expected.read("loss"), text(one.name, " loss"));
    loss.backward();
    size_t gradients = 0;
    for (const auto& [name, parameter] : pipe::parameters(layers)) {
      const std::string key = text("grad.", name);
      ASSERT_TRUE(one.expected.has(key)) << one.name << " " << key;
      expect_close(parameter.grad(), one.expected.read(key), text(one.name, " ", key));
      ++gradients;
    }
    EXPECT_EQ(one.expected.names().size(), gradients + 4) << one.name;
  }
}

TEST_F(ModelPeer, NamesAreTransformers) {
  for (const Case& one : cases_) {
    if (one.name == "gpt2_without_prefix")
      continue;
    std::set<std::string> names;
    for (const LayerPlan& layer : one.plan.layers)
      for (const ParameterPlan& each : layer.parameters)
        names.insert(each.name);
    for (const auto& tied : one.plan.tied)
      names.erase(tied[1]);
    const auto there = one.files.names();
    EXPECT_EQ(names, std::set<std::string>(there.begin(), there.end())) << one.name;
  }
}

// One file a stage, with an index, as a checkpoint has it.
void save(const Case& one, const fs::path& folder) {
  fs::create_directories(folder);
  const auto stages = one.build({{0, 2}, {2, one.last()}});
  ckpt::WeightIndex index;
  for (int stage = 0; stage < 2; ++stage) {
    const auto tensors = weights_to_save(stages[static_cast<size_t>(stage)], one.plan);
    const std::string file = ckpt::shard_name("model", stage + 1, 2);
    ckpt::write_safetensors(folder / file, tensors);
    for (const auto& [name, tensor] : tensors) {
      index.files[name] = file;
      index.total_bytes += tensor.nbytes();
    }
  }
  write_durably(folder / ckpt::index_name("model"), ckpt::write_weight_index(index));
  write_durably(folder / "config.json", config_for_saving(one.plan, one.dtype));
  const at::NoGradGuard no_grad;
  const at::Tensor tokens = one.expected.read("tokens");
  const at::Tensor logits =
      pipe::run_layers(stages[1], pipe::run_layers(stages[0], {tokens})).at(0);
  ckpt::write_safetensors(
      folder / "logits.safetensors", {{"tokens", tokens}, {"logits", logits}});
}

TEST_F(ModelPeer, TransformersLoadsWhatIsSaved) {
  const testing::ScratchFolder folder;
  std::string names;
  std::set<std::string> sorted;
  for (const Case& one : cases_) {
    save(one, folder.path() / one.name);
    sorted.insert(one.name);
  }
  for (const std::string& name : sorted)
    names += text(name, "\n");
  EXPECT_EQ(
      testing::run_peer({TRANSFORMERS_MODELS, "check", folder.path().string()}), names);
}

}  // namespace
}  // namespace trireme::model
