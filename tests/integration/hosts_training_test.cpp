// Training over two hosts of two ranks equals one process.
#include "../dp/models.h"
#include "hosts_case.h"
#include "mesh_case.h"
#include "pipeline_case.h"
#include "trireme/dp/data_parallel.h"

namespace trireme {
namespace {

using testing::HostJob;

class HostsTrainingProcs : public comm::HostsCase {
 protected:
  static void on_hosts(const testing::RankBody& body) {
    for (const auto& ranks : {std::vector<int>{2, 2}, std::vector<int>{3, 1}})
      HostJob(comm::two_hosts(), ranks).run(body);
  }
};

TEST_F(HostsTrainingProcs, DataParallelHasTheBitsOfOneProcess) {
  on_hosts([](const comm::Group& world) {
    const auto net = std::make_shared<dp::Blocks>(2, 4, at::kDouble, 1 + world.rank());
    dp::DataParallel model(net, world, {.bucket_bytes = 64});
    const auto whole = dp::copy_of(dp::Blocks(2));
    dp::expect_same_values(*net, *whole);  // those of rank 0
    for (int step = 0; step < 5; ++step) {
      const auto seed = static_cast<uint64_t>(100 + step);
      const at::Tensor x = dp::whole_numbers({8, 4}, seed);
      const at::Tensor t = dp::whole_numbers({8, 4}, seed + 50);
      (model(dp::rows_of(x, world)) * dp::rows_of(t, world)).sum().backward();
      ((whole->forward(x) * t).sum() / world.size()).backward();
      SCOPED_TRACE(text("step ", step, " of rank ", world.rank()));
      dp::expect_same_gradients(*net, *whole);
      for (const auto& each : {net, whole}) {
        dp::descend(*each, 0.0625);
        dp::drop_gradients(*each);
      }
    }
  });
}

TEST_F(HostsTrainingProcs, APipelineHasTheLossesAndGradientsOfOneProcess) {
  for (const char* schedule : {"1F1B", "ZB-H1"}) {
    const pipe::Problem problem = pipe::dense_problem(schedule, 4, 4);
    const pipe::Outcome wanted = pipe::run_alone(problem);
    on_hosts([&](const comm::Group& world) {
      SCOPED_TRACE(text(schedule, ", rank ", world.rank()));
      pipe::PipelineRank rank(problem, world);
      rank.expect(wanted, rank.step());
    });
  }
}

TEST_F(HostsTrainingProcs, AMeshOfBothEqualsOneProcess) {
  for (const char* schedule : {"1F1B", "ZB-H1"}) {
    const pipe::Problem problem = pipe::whole_problem(schedule, 2);
    const pipe::Outcome wanted = pipe::alone(problem);
    on_hosts([&](const comm::Group& world) {
      SCOPED_TRACE(text(schedule, ", rank ", world.rank()));
      pipe::MeshRank rank(problem, world);
      rank.expect_losses(wanted, rank.step());
      rank.expect_gradients(wanted);
    });
  }
}

}  // namespace
}  // namespace trireme
