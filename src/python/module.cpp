// The Python extension module hjcdik._core: the C++ library behind the package's own classes.
// Shapes and defaults are the Python layer's job; values are validated by the C++ library.
#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <hjcdik/hjcdik.hpp>

#include "cuda/device.hpp"
#include "cuda/driver.hpp"
#include "cuda/nvrtc.hpp"
#include "model/chain.hpp"
#include "store/store.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace hjcdik::python {
namespace {

// Raised whenever the functions below change, so that a stale extension is noticed at import.
constexpr int kBindingAbi = 5;

// Python can be interrupted (Ctrl-C) in a solve of at least this many targets.
constexpr std::int64_t kInterruptibleTargets = 256;

// Where there is no driver to suit.
constexpr int kAnyCuda = 99;

// A C-contiguous buffer of a Python object, such as an array's. Held while C++ works on it:
// several times cheaper than nb::ndarray, which matters when a solve takes 4 us.
template <class T>
class Buffer {
 public:
  Buffer(nb::handle object, const char* name, bool writable) {
    if (object.is_none()) return;
    if (PyObject_GetBuffer(object.ptr(), &view_, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) != 0) {
      throw nb::python_error();
    }
    if (view_.itemsize != sizeof(T)) {
      PyBuffer_Release(&view_);
      throw InvalidArgument(std::string(name) + ": wrong item size");
    }
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() const { return static_cast<T*>(view_.buf); }
  std::int64_t size() const { return view_.len / static_cast<std::int64_t>(sizeof(T)); }

  // Python decides the shapes; a slip there must not become a write outside the array.
  void require(std::int64_t expected, const char* name) const {
    if (size() != expected) {
      throw InvalidArgument(std::string(name) + ": expected " + std::to_string(expected) + " values, got " +
                            std::to_string(size()));
    }
  }

 private:
  Py_buffer view_{};  // a null view is released without effect
};

std::string text_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

// spheres, srdf: a name or the content of a file; empty for none.
Robot make_robot(const std::string& preset, nb::object urdf, const std::string& source,
                 const std::string& ee_link, const std::map<std::string, double>& locked_joints,
                 const nb::bytes& spheres, const std::string& spheres_source, const nb::bytes& srdf,
                 const std::string& srdf_source, bool check_base) {
  RobotOptions options;
  options.ee_link = ee_link;
  options.locked_joints = locked_joints;
  options.spheres = text_of(spheres);
  options.spheres_source = spheres_source;
  options.srdf = text_of(srdf);
  options.srdf_source = srdf_source;
  options.check_base = check_base;
  if (urdf.is_none()) return Robot::preset(preset, options);
  const auto text = nb::cast<nb::bytes>(urdf);
  return Robot::from_urdf_text({text.c_str(), text.size()}, options, source);
}

std::vector<std::tuple<std::string, std::string, double, double>> joints(const Robot& robot) {
  std::vector<std::tuple<std::string, std::string, double, double>> rows;
  for (const JointInfo& joint : robot.joints()) {
    rows.emplace_back(joint.name, to_string(joint.type), joint.lower, joint.upper);
  }
  return rows;
}

void forward_kinematics(const Robot& robot, nb::handle q_array, nb::handle pose_array) {
  const Buffer<const double> q(q_array, "q", false);
  const Buffer<double> pose(pose_array, "pose", true);
  const std::int64_t dof = robot.dof();
  const std::int64_t rows = q.size() / dof;
  q.require(rows * dof, "q");
  pose.require(rows * 7, "pose");
  const nb::gil_scoped_release release;
  for (std::int64_t i = 0; i < rows; ++i) {
    const Pose row = robot.forward_kinematics({q.data() + i * dof, static_cast<std::size_t>(dof)});
    std::memcpy(pose.data() + i * 7, row.data(), sizeof(Pose));
  }
}

void jacobian(const Robot& robot, nb::handle q_array, nb::handle jacobian_array) {
  const Buffer<const double> q(q_array, "q", false);
  const Buffer<double> out(jacobian_array, "jacobian", true);
  const std::int64_t dof = robot.dof();
  const std::int64_t rows = q.size() / dof;
  q.require(rows * dof, "q");
  out.require(rows * 6 * dof, "jacobian");
  const nb::gil_scoped_release release;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::vector<double> matrix = robot.jacobian({q.data() + i * dof, static_cast<std::size_t>(dof)});
    std::memcpy(out.data() + i * 6 * dof, matrix.data(), matrix.size() * sizeof(double));
  }
}

std::vector<std::tuple<int, int>> self_pairs(const Robot& robot) {
  std::vector<std::tuple<int, int>> pairs;
  for (const auto& [a, b] : robot.self_pairs()) pairs.emplace_back(a, b);
  return pairs;
}

// Rows of x y z r for each row of q.
void spheres(const Robot& robot, nb::handle q_array, nb::handle sphere_array) {
  const Buffer<const double> q(q_array, "q", false);
  const Buffer<double> out(sphere_array, "spheres", true);
  const std::int64_t dof = robot.dof();
  const std::int64_t rows = q.size() / dof;
  const std::int64_t count = static_cast<std::int64_t>(robot.sphere_links().size());
  q.require(rows * dof, "q");
  out.require(rows * count * 4, "spheres");
  const nb::gil_scoped_release release;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto row = robot.spheres({q.data() + i * dof, static_cast<std::size_t>(dof)});
    std::memcpy(out.data() + i * count * 4, row.data(), row.size() * sizeof row[0]);
  }
}

World make_world(nb::handle boxes_array, nb::handle capsules_array, nb::handle cylinders_array,
                 nb::handle spheres_array, bool exact_cylinders) {
  const Buffer<const double> boxes(boxes_array, "boxes", false);
  const Buffer<const double> capsules(capsules_array, "capsules", false);
  const Buffer<const double> cylinders(cylinders_array, "cylinders", false);
  const Buffer<const double> spheres(spheres_array, "spheres", false);
  const auto span = [](const Buffer<const double>& rows) {
    return std::span<const double>(rows.data(), static_cast<std::size_t>(rows.size()));
  };
  const nb::gil_scoped_release release;
  return World({span(boxes), span(capsules), span(cylinders), span(spheres), exact_cylinders});
}

nb::bytes bytes_of(const std::vector<double>& values) {
  return nb::bytes(values.data(), values.size() * sizeof(double));
}

Solver make_solver(const Robot& robot, const std::string& device, int threads, const std::string& isa,
                   const std::string& cache_dir, bool allow_build) {
  const nb::gil_scoped_release release;  // the first solver measures the machine and starts threads
  return Solver(robot, SolverOptions{device, threads, isa, cache_dir, allow_build});
}

// Returns the time of the whole call in ms.
double solve(const Solver& solver, nb::handle targets_array, nb::handle q_array, nb::handle pose_array,
             nb::handle pos_err_array, nb::handle ori_err_array, nb::handle count_array,
             nb::handle outcome_array, nb::handle stats_array, std::int64_t num_solutions,
             std::int64_t batch_size, int precision, std::uint32_t seed, double distinct_rad,
             nb::handle q_init_array, std::int64_t q_init_rows, bool q_init_per_target, int coarse_sweeps,
             int coarse_order, int collision, double collision_margin_m, bool self_collision,
             bool self_motion, nb::handle world_index_array) {
  const Buffer<const double> targets(targets_array, "poses", false);
  const std::int64_t rows = targets.size() / 7;
  targets.require(rows * 7, "poses");
  const std::int64_t dof = solver.robot().dof();
  const std::int64_t capacity = rows * num_solutions;

  const Buffer<double> q(q_array, "q", true);
  const Buffer<double> pose(pose_array, "pose", true);
  const Buffer<double> pos_err(pos_err_array, "pos_err_m", true);
  const Buffer<double> ori_err(ori_err_array, "ori_err_rad", true);
  const Buffer<std::int64_t> count(count_array, "count", true);
  const Buffer<Outcome> outcome(outcome_array, "outcome", true);
  const Buffer<TargetStats> stats(stats_array, "stats", true);
  const Buffer<const double> q_init(q_init_array, "q_init", false);
  const Buffer<const std::int32_t> world_index(world_index_array, "world_index", false);
  q.require(capacity * dof, "q");
  pose.require(capacity * 7, "pose");
  pos_err.require(capacity, "pos_err_m");
  ori_err.require(capacity, "ori_err_rad");
  count.require(rows, "count");
  outcome.require(rows, "outcome");
  stats.require(stats_array.is_none() ? 0 : rows, "stats");
  q_init.require(q_init_rows * dof * (q_init_per_target ? rows : 1), "q_init");
  world_index.require(world_index_array.is_none() ? 0 : rows, "world_index");

  SolveOptions options;
  options.num_solutions = num_solutions;
  options.batch_size = batch_size;
  options.precision = static_cast<Precision>(precision);
  options.stats = !stats_array.is_none();
  options.q_init = q_init_rows > 0 ? q_init.data() : nullptr;
  options.q_init_rows = q_init_rows;
  options.q_init_per_target = q_init_per_target;
  options.seed = seed;
  options.distinct_rad = distinct_rad;
  options.coarse_sweeps = coarse_sweeps;
  options.coarse_order = static_cast<CoarseOrder>(coarse_order);
  options.collision = static_cast<Collision>(collision);
  options.collision_margin_m = collision_margin_m;
  options.self_collision = self_collision;
  options.self_motion = self_motion;
  options.world_index = world_index.data();

  ResultView view;
  view.q = q.data();
  view.pose = pose.data();
  view.pos_err_m = pos_err.data();
  view.ori_err_rad = ori_err.data();
  view.count = count.data();
  view.outcome = outcome.data();
  view.stats = stats.data();

  std::function<void(std::int64_t)> progress;
  if (rows >= kInterruptibleTargets) {
    progress = [](std::int64_t) {
      const nb::gil_scoped_acquire acquire;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    };
  }
  const nb::gil_scoped_release release;
  const auto start = std::chrono::steady_clock::now();
  solver.solve_into({targets.data(), rows}, options, view, progress);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void check(const Solver& solver, nb::handle q_array, nb::handle world_index_array, double collision_margin_m,
           bool self_collision, nb::handle free_array, nb::handle self_clearance_array,
           nb::handle world_clearance_array, nb::handle link_array, nb::handle kind_array,
           nb::handle other_array) {
  const Buffer<const double> q(q_array, "q", false);
  const Buffer<const std::int32_t> world_index(world_index_array, "world_index", false);
  const Buffer<std::uint8_t> free(free_array, "free", true);
  const Buffer<double> self_clearance(self_clearance_array, "self_clearance_m", true);
  const Buffer<double> world_clearance(world_clearance_array, "world_clearance_m", true);
  const Buffer<std::int32_t> link(link_array, "link", true);
  const Buffer<ObstacleKind> kind(kind_array, "kind", true);
  const Buffer<std::int32_t> other(other_array, "other", true);
  const std::int64_t dof = solver.robot().dof();
  const std::int64_t rows = q.size() / dof;
  q.require(rows * dof, "q");
  free.require(rows, "free");
  self_clearance.require(rows, "self_clearance_m");
  world_clearance.require(rows, "world_clearance_m");
  link.require(rows, "link");
  kind.require(rows, "kind");
  other.require(rows, "other");
  const nb::gil_scoped_release release;
  const std::vector<Check> checks = solver.check(
      {q.data(), static_cast<std::size_t>(q.size())},
      {world_index.data(), static_cast<std::size_t>(world_index.size())}, collision_margin_m, self_collision);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Check& row = checks[static_cast<std::size_t>(i)];
    free.data()[i] = row.free ? 1 : 0;
    self_clearance.data()[i] = row.self_clearance_m;
    world_clearance.data()[i] = row.world_clearance_m;
    link.data()[i] = row.link;
    kind.data()[i] = row.other;
    other.data()[i] = row.other_index;
  }
}

void sample_targets(const Solver& solver, std::uint64_t seed, nb::handle pose_array) {
  const Buffer<double> out(pose_array, "pose", true);
  const nb::gil_scoped_release release;
  const std::vector<Pose> poses = solver.sample_targets(out.size() / 7, seed);
  std::memcpy(out.data(), poses.data(), poses.size() * sizeof(Pose));
}

void sample_configurations(const Solver& solver, std::uint64_t seed, nb::handle q_array) {
  const Buffer<double> out(q_array, "q", true);
  const nb::gil_scoped_release release;
  const std::vector<double> q = solver.sample_configurations(out.size() / solver.robot().dof(), seed);
  std::memcpy(out.data(), q.data(), q.size() * sizeof(double));
}

// The GPU program of a robot as (image, NVRTC's version, its report on registers, stack and spills),
// compiled here for a compute capability by whatever NVRTC there is. Needs no GPU; nothing is stored.
std::tuple<nb::bytes, std::string, std::string> compile_program(const Robot& robot, bool coarse,
                                                                bool collision, int major, int minor) {
  std::string report;
  cuda::Image image;
  {
    const nb::gil_scoped_release release;
    const cuda::Target target = cuda::buildable({major, minor}, kAnyCuda);
    image = cuda::compile_image(robot.chain(), {coarse, collision}, target, kAnyCuda, &report);
  }
  return {nb::bytes(image.image.data(), image.image.size()), image.compiler, report};
}

std::string program_key(const Robot& robot, bool coarse, bool collision, int major, int minor, bool ptx) {
  return cuda::program_key(robot.chain(), {coarse, collision}, {major, minor, ptx});
}

// The newest CUDA whose compiler is of use: what this machine's own driver cannot read is not, where there is
// a driver.
int usable_cuda() { return cuda::driver_problem().empty() ? cuda::driver().version / 1000 : kAnyCuda; }

// Puts a robot's program into the store, where it is not there yet; returns (NVRTC's version, whether it was
// compiled now).
std::tuple<std::string, bool> build_program(const Robot& robot, bool coarse, bool collision, int major,
                                            int minor, bool ptx, const std::string& folder, bool force) {
  const nb::gil_scoped_release release;
  std::string problem;
  const cuda::Image image = cuda::build_image(robot.chain(), {coarse, collision}, {major, minor, ptx},
                                              usable_cuda(), folder, force, &problem);
  if (!problem.empty()) throw BuildError("the robot's GPU program cannot be stored: " + problem, "");
  return {image.compiler, image.compiled};
}

// Whether a GPU of this compute capability finds a program in the store, or in the packaged one.
bool has_program(const Robot& robot, bool coarse, bool collision, int major, int minor,
                 const std::string& folder) {
  const nb::gil_scoped_release release;
  return cuda::each_stored(robot.chain(), {coarse, collision}, major, minor, true, folder,
                           [](const cuda::Image&) { return true; });
}

// Whether the store has it, whole, or the packaged one.
bool is_stored(const std::string& folder, const std::string& key) {
  const nb::gil_scoped_release release;
  return store::read(folder, key, false).has_value() ||
         store::read(store::packaged_folder(), key, false).has_value();
}

// What NVRTC compiles for; nothing where there is none.
std::vector<int> known_architectures() {
  const nb::gil_scoped_release release;
  const int cuda = usable_cuda();
  if (cuda::compiler_version(cuda).empty()) return {};
  return cuda::known_architectures(cuda);
}

using BuildRow = std::tuple<std::string, std::vector<std::string>, std::string>;

// A path as Python has it, which need not be UTF-8.
nb::object path_of(const std::string& path) {
  return nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
}

nb::list store_notes() {
  nb::list notes;
  for (const std::string& note : take_store_notes()) {
    notes.append(nb::steal(
        PyUnicode_DecodeUTF8(note.data(), static_cast<Py_ssize_t>(note.size()), "backslashreplace")));
  }
  return notes;
}

// (name, keys, text), or None where there is none of this name. Throws BuildError for one that is unusable.
std::optional<BuildRow> read_build(const std::string& folder, const std::string& name) {
  std::string problem;
  auto build = store::read_build(folder, name, problem);
  if (!problem.empty()) throw BuildError("the build '" + name + "': " + problem, "");
  if (!build) return std::nullopt;
  return BuildRow{build->name, build->keys, build->text};
}

std::vector<BuildRow> read_builds(const std::string& folder) {
  std::vector<BuildRow> rows;
  for (store::Build& build : store::read_builds(folder))
    rows.emplace_back(std::move(build.name), std::move(build.keys), std::move(build.text));
  return rows;
}

void publish_build(const std::string& folder, const std::string& name, const std::vector<std::string>& keys,
                   const std::string& text) {
  std::string problem;
  if (!store::publish_build(folder, {name, keys, text}, &problem))
    throw BuildError("the build '" + name + "' cannot be stored: " + problem, "");
}

std::string publish_header(const std::string& folder, const std::string& text) {
  std::string problem;
  std::string path = store::publish_header(folder, text, &problem);
  if (path.empty()) throw BuildError("the robot's header cannot be stored: " + problem, "");
  return path;
}

// The fields of TargetStats as (name, numpy format, offset): the layout of a stats array.
std::vector<std::tuple<std::string, std::string, std::size_t>> stats_fields() {
#define INTEGER(field) \
  { #field, "i8", offsetof(TargetStats, field) }
#define REAL(field) \
  { #field, "f8", offsetof(TargetStats, field) }
  return {INTEGER(batch_size),
          INTEGER(n_refined),
          INTEGER(n_ik_accurate),
          INTEGER(n_coll_free_refined),
          INTEGER(n_feasible),
          INTEGER(n_ik_lost),
          INTEGER(n_coll_in_refined),
          INTEGER(n_coll_in_coarse),
          REAL(env_cost_min_mm),
          REAL(env_cost_max_mm),
          REAL(env_cost_mean_mm),
          INTEGER(n_returned),
          INTEGER(n_returned_ik_accurate),
          INTEGER(n_returned_coll_free),
          REAL(pct_returned_coll_free),
          INTEGER(n_returned_feasible)};
#undef INTEGER
#undef REAL
}

// Names of the outcomes, by code.
std::vector<std::string> outcomes() {
  std::vector<std::string> names;
  for (int code = 0; code <= static_cast<int>(Outcome::environment_collision); ++code) {
    names.emplace_back(to_string(static_cast<Outcome>(code)));
  }
  return names;
}

// Names of the obstacle kinds, by code.
std::vector<std::string> obstacle_kinds() {
  std::vector<std::string> names;
  for (int code = 0; code <= static_cast<int>(ObstacleKind::sphere); ++code) {
    names.emplace_back(to_string(static_cast<ObstacleKind>(code)));
  }
  return names;
}

// Exceptions become the classes of hjcdik._errors; InvalidArgument is a ValueError by itself.
void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const ModelError& error) {
    const nb::object type = nb::module_::import_("hjcdik._errors").attr("ModelError");
    const nb::object value = type(error.what(), error.file(), error.line(), error.element());
    PyErr_SetObject(type.ptr(), value.ptr());
  } catch (const DeviceError& error) {
    const nb::object type = nb::module_::import_("hjcdik._errors").attr("DeviceError");
    PyErr_SetString(type.ptr(), error.what());
  } catch (const BuildError& error) {
    const nb::object type = nb::module_::import_("hjcdik._errors").attr("BuildError");
    const nb::object value = type(error.what(), error.log());
    PyErr_SetObject(type.ptr(), value.ptr());
  } catch (const SolveError& error) {
    const nb::object type = nb::module_::import_("hjcdik._errors").attr("SolveError");
    const nb::object value = type(error.what(), error.target_index(), error.completed());
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

}  // namespace
}  // namespace hjcdik::python

NB_MODULE(_core, m) {
  using namespace hjcdik;
  using namespace hjcdik::python;

  m.doc() = "The C++ library behind hjcdik. Not a public interface: use the classes of the package.";
  nb::set_leak_warnings(false);  // of objects that live until the process ends
  nb::register_exception_translator(translate, nullptr);

  m.attr("VERSION") = HJCDIK_VERSION;
  m.attr("BINDING_ABI") = kBindingAbi;
  m.attr("STATS_ITEMSIZE") = sizeof(TargetStats);

  nb::class_<Robot>(m, "Robot", "An immutable serial chain.")
      .def(nb::new_(&make_robot), "preset"_a, "urdf"_a.none(), "source"_a, "ee_link"_a, "locked_joints"_a,
           "spheres"_a, "spheres_source"_a, "srdf"_a, "srdf_source"_a, "check_base"_a)
      .def_prop_ro("name", &Robot::name)
      .def_prop_ro("base_link", &Robot::base_link)
      .def_prop_ro("ee_link", &Robot::ee_link)
      .def_prop_ro("ee_frame", &Robot::ee_frame)
      .def_prop_ro("dof", &Robot::dof)
      .def_prop_ro("joints", &joints)
      .def_prop_ro("locked_joints", &Robot::locked_joints)
      .def_prop_ro("warnings", &Robot::warnings)
      .def_prop_ro("header_text", &Robot::header_text)
      .def(
          "codegen",
          [](const Robot& robot, const std::string& name_space) { return codegen(robot, name_space); },
          "name_space"_a)
      .def_prop_ro("collision_links", &Robot::collision_links)
      .def_prop_ro("self_pairs", &self_pairs)
      .def_prop_ro("sphere_links", &Robot::sphere_links)
      .def("spheres", &spheres, "q"_a, "spheres"_a)
      .def("forward_kinematics", &forward_kinematics, "q"_a, "pose"_a)
      .def("jacobian", &jacobian, "q"_a, "jacobian"_a);

  nb::class_<World>(m, "World", "An immutable set of obstacles; its arrays are float64 rows as bytes.")
      .def(nb::new_(&make_world), "boxes"_a.none(), "capsules"_a.none(), "cylinders"_a.none(),
           "spheres"_a.none(), "exact_cylinders"_a)
      .def_prop_ro("boxes", [](const World& world) { return bytes_of(world.boxes()); })
      .def_prop_ro("capsules", [](const World& world) { return bytes_of(world.capsules()); })
      .def_prop_ro("cylinders", [](const World& world) { return bytes_of(world.cylinders()); })
      .def_prop_ro("spheres", [](const World& world) { return bytes_of(world.spheres()); });

  nb::class_<Solver>(m, "Solver", "Inverse kinematics of one robot on one device.")
      .def(nb::new_(&make_solver), "robot"_a, "device"_a, "threads"_a, "isa"_a, "cache_dir"_a,
           "allow_build"_a)
      .def_prop_ro("device", &Solver::device)
      .def_prop_ro("isa", &Solver::isa)
      .def_prop_ro("compiler", &Solver::compiler)
      .def_prop_ro(
          "program_path", [](const Solver& solver) { return path_of(solver.program_path()); },
          nb::sig("def program_path(self, /) -> str"))
      .def_prop_ro("gpu_refusal", &Solver::gpu_refusal)
      .def_prop_ro("threads", &Solver::threads)
      .def("solve", &solve, "targets"_a, "q"_a, "pose"_a, "pos_err_m"_a, "ori_err_rad"_a, "count"_a,
           "outcome"_a, "stats"_a.none(), "num_solutions"_a, "batch_size"_a, "precision"_a, "seed"_a,
           "distinct_rad"_a, "q_init"_a.none(), "q_init_rows"_a, "q_init_per_target"_a, "coarse_sweeps"_a,
           "coarse_order"_a, "collision"_a, "collision_margin_m"_a, "self_collision"_a, "self_motion"_a,
           "world_index"_a.none())
      .def("set_worlds", &Solver::set_worlds, "worlds"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("check", &check, "q"_a, "world_index"_a.none(), "collision_margin_m"_a, "self_collision"_a,
           "free"_a, "self_clearance_m"_a, "world_clearance_m"_a, "link"_a, "kind"_a, "other"_a)
      .def_prop_ro("base_contacts", &Solver::base_contacts)
      .def("sample_targets", &sample_targets, "seed"_a, "pose"_a)
      .def("sample_configurations", &sample_configurations, "seed"_a, "q"_a);

  m.def("stats_fields", &stats_fields);
  m.def("outcomes", &outcomes);
  m.def("obstacle_kinds", &obstacle_kinds);
  m.def("max_batch_size", &Solver::max_batch_size);
  m.def("available_isas", &available_isas);
  // Loading and initialising the driver takes its time.
  m.def("gpu_names", &gpu_names, nb::call_guard<nb::gil_scoped_release>());
  m.def("gpu_problem", &gpu_problem, nb::call_guard<nb::gil_scoped_release>());
  m.def("set_compiler_folders", &cuda::set_compiler_folders, "folders"_a);
  m.def("compile_program", &compile_program, "robot"_a, "coarse"_a, "collision"_a, "major"_a, "minor"_a);
  m.def("program_key", &program_key, "robot"_a, "coarse"_a, "collision"_a, "major"_a, "minor"_a, "ptx"_a);
  m.def("build_program", &build_program, "robot"_a, "coarse"_a, "collision"_a, "major"_a, "minor"_a, "ptx"_a,
        "folder"_a, "force"_a);
  m.def("has_program", &has_program, "robot"_a, "coarse"_a, "collision"_a, "major"_a, "minor"_a, "folder"_a);
  m.def("is_stored", &is_stored, "folder"_a, "key"_a);
  m.def("known_architectures", &known_architectures);
  m.def("gpu_architecture", &cuda::architecture, "index"_a, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "store_folder", [] { return path_of(store::default_folder()); }, nb::sig("def store_folder() -> str"));
  m.def(
      "packaged_store", [] { return path_of(store::packaged_folder()); },
      nb::sig("def packaged_store() -> str"));
  m.def("set_packaged_store", &store::set_packaged_folder, "folder"_a);
  m.def("build_path", &store::build_path, "folder"_a, "name"_a);
  m.def("read_build", &read_build, "folder"_a, "name"_a);
  m.def("read_builds", &read_builds, "folder"_a);
  m.def("publish_build", &publish_build, "folder"_a, "name"_a, "keys"_a, "text"_a);
  m.def("publish_header", &publish_header, "folder"_a, "text"_a);
  m.def("take_store_notes", &store_notes, nb::sig("def take_store_notes() -> list[str]"));
  m.def("presets", [] {
    std::vector<std::tuple<std::string, std::string, std::string>> rows;
    for (const PresetInfo& preset : presets())
      rows.emplace_back(preset.name, preset.ee_link, preset.description);
    return rows;
  });
  m.def(
      "preset_urdf", [](const std::string& name) { return preset_urdf(name); }, "name"_a);
  m.def(
      "sphere_preset_text", [](const std::string& name) { return sphere_preset_text(name); }, "name"_a);
  m.def("sphere_presets", [] {
    std::vector<std::tuple<std::string, std::string, std::string>> rows;
    for (const SpherePresetInfo& preset : sphere_presets())
      rows.emplace_back(preset.name, preset.robot, preset.description);
    return rows;
  });
}
