// Uses one thing of each module that is installed, so that headers, libraries and what
// they depend on are all found from outside. build_consumer.cmake checks the output.
#include <iostream>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/net/security.h"
#include "trireme/version.h"
#ifdef USE_PIPE_AND_DP
#include "trireme/dp/stage_sync.h"
#include "trireme/pipe/module_stage.h"
#include "trireme/pipe/pipeline.h"
#endif

namespace {

// The error is thrown inside the library's own code and caught by its type here.
void use_core() {
  try {
    TRIREME_ASSERT(1 + 1 == 3);
  } catch (const trireme::InternalError&) {
    std::cout << "core: caught InternalError\n";
  }
}

// Where OpenSSL is not there, TLS says so when it is asked for, and nothing else is
// missing.
void use_net() {
  namespace net = trireme::net;
  try {
    std::cout << "net: " << net::Security::insecure_loopback().text() << ", TLS is ";
    (void)net::Security::job_key(net::JobKey::random());
    std::cout << "there\n";
  } catch (const trireme::NotSupported&) {
    std::cout << "missing\n";
  }
}

void use_comm() {
  trireme::comm::run_local(2, [](const trireme::comm::Group& world) {
    at::Tensor x = at::full({3}, world.rank() + 1);
    trireme::comm::all_reduce(world, x);
    if (world.rank() == 0)
      std::cout << "comm: 1 + 2 = " << x[0].item<int>() << '\n';
  });
}

#ifdef USE_PIPE_AND_DP
// One rank trains one stage, and a group of one reduces its gradients.
void use_pipe_and_dp() {
  namespace pipe = trireme::pipe;
  trireme::comm::run_local(1, [](const trireme::comm::Group& world) {
    const at::Tensor w = at::ones({2, 2}).set_requires_grad(true);
    const std::vector<pipe::Stage> stages{
        {0,
         pipe::make_stage(
             pipe::TensorsFunction([w](const pipe::Tensors& in) {
               return pipe::Tensors{in[0].matmul(w)};
             }),
             {{"w", w}})}};
    const auto sync = std::make_shared<trireme::dp::StageSync>(
        pipe::stage_parameters<trireme::dp::StageParameters>(stages), world);
    pipe::Pipeline pipeline(
        stages,
        world,
        [](const pipe::Tensors& out, const pipe::Tensors&) { return out[0].sum(); },
        {.schedule = "GPipe", .microbatches = 1, .sync = sync});
    const at::Tensor x = at::ones({1, 2});
    pipeline.step({x}, {x});
    std::cout << "pipe and dp: the gradient is " << w.grad()[0][0].item<int>() << '\n';
  });
}
#endif

}  // namespace

int main() {
  std::cout << "Trireme " << trireme::kVersion << '\n';
  use_core();
  use_net();
  use_comm();
#ifdef USE_PIPE_AND_DP
  use_pipe_and_dp();
#endif
}
