// The picture for documents.
#include <algorithm>
#include <iomanip>
#include <sstream>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/draw.h"

namespace trireme::sched {
namespace {

constexpr double kBar = 22;       // pixels of a rank's row of boxes
constexpr double kGap = 4;        // between two of them
constexpr double kArrowGap = 26;  // the same, with room for arrows
constexpr double kLabel = 64;     // for "rank 12"
constexpr double kTop = 34;       // for the title
constexpr double kBottom = 30;    // for a row of the legend
constexpr double kShortest = 22;  // an action, while there is room
constexpr double kMostWide = 1600;
constexpr int kMostShades = 4;  // in the legend

struct Look {
  ActionKind kind;
  const char* css;
  const char* legend;
};
constexpr Look kLooks[] = {
    {ActionKind::Forward, "f", "F forward"},
    {ActionKind::Backward, "b", "B backward"},
    {ActionKind::InputGrad, "i", "I input gradient"},
    {ActionKind::WeightGrad, "w", "W weight gradient"},
    {ActionKind::Overlap, "o", "F and B overlapped"}};

const char* css_of(ActionKind kind) {
  for (const Look& look : kLooks)
    if (look.kind == kind)
      return look.css;
  return "o";
}

constexpr const char* kStyle = R"(<style>
text{font:11px system-ui,sans-serif;fill:#222}
.t{font-size:14px;font-weight:600}
.m{font-size:9px;text-anchor:middle;dominant-baseline:central;fill:#111}
.z{fill:#e9e9ee}
.f{fill:#7fb2ee}.b{fill:#86cf94}.i{fill:#f2cc74}.w{fill:#d8a2e0}.o{fill:#c3c8d1}
rect{stroke:#fff;stroke-width:.6}
.bg{fill:#fff;stroke:none}
@media (prefers-color-scheme:dark){text{fill:#ddd}.m{fill:#111}.z{fill:#2b2d33}rect{stroke:#16181d}.bg{fill:#16181d}}
</style>
)";

// Of pictures with messages only.
constexpr const char* kArrowStyle = R"(<style>
.ac{stroke:#2f6db5;fill:#2f6db5}.gr{stroke:#2c8a45;fill:#2c8a45}
.ac,.gr{stroke-width:1.1;opacity:.8}marker path{stroke:none}
@media (prefers-color-scheme:dark){.ac{stroke:#8dbdf5;fill:#8dbdf5}.gr{stroke:#86d99a;fill:#86d99a}}
</style>
<defs>
<marker id="ac" viewBox="0 0 6 6" refX="5.5" refY="3" markerWidth="5" markerHeight="5" orient="auto"><path class="ac" d="M0 0L6 3L0 6z"/></marker>
<marker id="gr" viewBox="0 0 6 6" refX="5.5" refY="3" markerWidth="5" markerHeight="5" orient="auto"><path class="gr" d="M0 0L6 3L0 6z"/></marker>
</defs>
)";

std::string escape_xml(const std::string& raw) {
  std::string out;
  for (const char c : raw) {
    if (c == '<' || c == '>' || c == '&' || c == '"')
      out += text("&#", static_cast<int>(c), ";");
    else if (static_cast<unsigned char>(c) >= ' ')
      out += c;
  }
  return out;
}

class Picture {
 public:
  Picture(const Schedule& schedule, const Simulation& simulation)
      : schedule_(schedule),
        simulation_(simulation),
        arrows_(!simulation.messages.empty()) {
    out_ << std::fixed << std::setprecision(2);
    place_stages();
    const double makespan = simulation.makespan;
    if (makespan > 0)
      scale_ = std::min(makespan / shortest() * kShortest, kMostWide) / makespan;
  }

  std::string draw() {
    open();
    for (size_t rank = 0; rank < simulation_.timeline.size(); ++rank)
      draw_rank(rank);
    for (const Message& message : simulation_.messages)
      draw_message(message);
    draw_legend();
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  // The least time that any action takes, in whatever unit.
  double shortest() const {
    double least = simulation_.makespan;
    for (const auto& list : simulation_.timeline)
      for (const Timed& timed : list)
        if (timed.end > timed.start)
          least = std::min(least, timed.end - timed.start);
    return least;
  }

  // Which of its rank's stages each one is, in the order of the model.
  void place_stages() {
    std::vector<int> seen(static_cast<size_t>(schedule_.ranks()));
    for (const int rank : schedule_.rank_of_stage) {
      place_of_stage_.push_back(seen[static_cast<size_t>(rank)]++);
      most_stages_ = std::max(most_stages_, place_of_stage_.back() + 1);
    }
  }

  // What a box of a rank's first, second, ... stage is shaded with: the later, the
  // paler. Nothing where every rank has one stage.
  std::string shade(int place) const {
    constexpr double kPalest = 0.4;
    if (most_stages_ < 2)
      return {};
    return text(
        " fill-opacity=\"", 1 - (1 - kPalest) * place / (most_stages_ - 1), "\"");
  }

  // The top of a rank's row; after the last one, where the legend begins.
  double top(int rank) const {
    return kTop + (kBar + (arrows_ ? kArrowGap : kGap)) * rank;
  }
  double bottom() const { return top(schedule_.ranks()); }
  int legend_rows() const { return 1 + (arrows_ ? 1 : 0) + (most_stages_ > 1 ? 1 : 0); }

  void open() {
    const double width = std::max(kLabel + simulation_.makespan * scale_ + 12, 640.0);
    const double height = bottom() + kBottom * legend_rows();
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width
         << "\" height=\"" << height << "\" viewBox=\"0 0 " << width << " " << height
         << "\" role=\"img\">\n"
         << kStyle << (arrows_ ? kArrowStyle : "")
         << "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n"
         << "<text class=\"t\" x=\"8\" y=\"20\">" << escape_xml(schedule_.name) << ", "
         << schedule_.ranks() << " ranks, " << schedule_.stages() << " stages, "
         << schedule_.microbatches << " microbatches: time "
         << text(simulation_.makespan) << ", bubble " << text(simulation_.wall_bubble)
         << "</text>\n";
  }

  void draw_rank(size_t rank) {
    const double y = top(static_cast<int>(rank)) + 2;
    out_ << "<text x=\"8\" y=\"" << y + 14.9 << "\">rank " << rank
         << "</text>\n<rect class=\"z\" x=\"" << kLabel << "\" y=\"" << y
         << "\" width=\"" << simulation_.makespan * scale_ << "\" height=\"" << kBar
         << "\"/>\n";
    const auto& list = simulation_.timeline[rank];
    for (size_t i = 0; i < list.size(); ++i) {
      // The halves of a measured overlap share the row: F above, B below.
      const bool shares = (i > 0 && list[i].start < list[i - 1].end) ||
                          (i + 1 < list.size() && list[i + 1].start < list[i].end);
      const bool below = shares && list[i].action.kind() != ActionKind::Forward;
      draw_action(list[i], y + (below ? kBar / 2 : 0), shares ? kBar / 2 : kBar);
    }
  }

  void draw_action(const Timed& timed, double y, double height) {
    const double x = kLabel + timed.start * scale_;
    const double width = (timed.end - timed.start) * scale_;
    out_ << "<g><title>" << to_string(timed.action) << " from " << text(timed.start)
         << " to " << text(timed.end) << "</title><rect class=\""
         << css_of(timed.action.kind()) << "\" x=\"" << x << "\" y=\"" << y
         << "\" width=\"" << width << "\" height=\"" << height << "\""
         << shade(place_of_stage_[static_cast<size_t>(timed.action.stage())]) << "/>";
    // Which microbatch, where there is room for it.
    if (width >= 9)
      out_ << "<text class=\"m\" x=\"" << x + width / 2 << "\" y=\"" << y + height / 2
           << "\">" << timed.action.microbatch() << "</text>";
    out_ << "</g>\n";
  }

  // From the row of its sender to that of its receiver.
  void draw_message(const Message& message) {
    const bool forward = message.made_by.kind() == ActionKind::Forward;
    const int from = schedule_.owner(message.made_by.stage());
    const int to = schedule_.owner(message.to);
    // Activations and gradients that leave at once lie side by side.
    const double x = kLabel + (forward ? -3 : 3);
    const double below = 2 + kBar, above = 2;
    out_ << "<g><title>" << (forward ? "activation" : "gradient") << " of microbatch "
         << message.made_by.microbatch() << " from stage " << message.made_by.stage()
         << " to " << message.to << ", from " << text(message.start) << " to "
         << text(message.end) << "</title>";
    draw_arrow(
        forward,
        {x + message.start * scale_, top(from) + (from < to ? below : above)},
        {x + message.end * scale_, top(to) + (from < to ? above : below)});
    out_ << "</g>\n";
  }

  struct Point {
    double x;
    double y;
  };
  void draw_arrow(bool forward, Point from, Point to) {
    const char* kind = forward ? "ac" : "gr";
    out_ << "<line class=\"" << kind << "\" x1=\"" << from.x << "\" y1=\"" << from.y
         << "\" x2=\"" << to.x << "\" y2=\"" << to.y << "\" marker-end=\"url(#" << kind
         << ")\"/>";
  }

  void draw_legend() {
    double x = kLabel;
    for (const Look& look : kLooks) {
      const bool used = std::any_of(
          simulation_.timeline.begin(),
          simulation_.timeline.end(),
          [&](const auto& list) {
            return std::any_of(list.begin(), list.end(), [&](const Timed& timed) {
              return timed.action.kind() == look.kind;
            });
          });
      if (!used)
        continue;
      const double y = bottom() + 10;
      out_ << "<rect class=\"" << look.css << "\" x=\"" << x << "\" y=\"" << y
           << "\" width=\"12\" height=\"12\"/><text x=\"" << x + 17 << "\" y=\""
           << y + 10 << "\">" << look.legend << "</text>\n";
      x += 140;
    }
    if (arrows_)
      draw_arrow_legend();
    if (most_stages_ > 1)
      draw_stage_legend();
  }

  void draw_stage_legend() {
    const int shown = std::min(most_stages_, kMostShades);
    const double y = bottom() + kBottom * (legend_rows() - 1) + 10;
    double x = kLabel;
    for (int i = 0; i < shown; ++i) {
      // Of many, the first ones and the last.
      const int place = i + 1 == shown ? most_stages_ - 1 : i;
      out_ << "<rect class=\"f\" x=\"" << x << "\" y=\"" << y
           << "\" width=\"12\" height=\"12\"" << shade(place) << "/><text x=\""
           << x + 17 << "\" y=\"" << y + 10 << "\">stage " << place + 1
           << " of its rank</text>\n";
      x += 140;
    }
  }

  void draw_arrow_legend() {
    double x = kLabel;
    for (const bool forward : {true, false}) {
      const double y = bottom() + kBottom + 10;
      draw_arrow(forward, {x, y}, {x + 24, y});
      out_ << "<text x=\"" << x + 30 << "\" y=\"" << y + 4 << "\">"
           << (forward ? "activation on its way" : "gradient on its way")
           << "</text>\n";
      x += 170;
    }
  }

  const Schedule& schedule_;
  const Simulation& simulation_;
  /// Whether there are messages.
  bool arrows_;
  /// By stage, and the most that a rank has.
  std::vector<int> place_of_stage_;
  int most_stages_ = 0;
  double scale_ = 1;
  std::ostringstream out_;
};

}  // namespace

std::string draw_svg(const Schedule& schedule, const Simulation& simulation) {
  return Picture(schedule, simulation).draw();
}

}  // namespace trireme::sched
