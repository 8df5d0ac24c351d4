// The store: compiled programs on disk, found by their content, and builds, which give some of them a name.
//
// A folder holds
//   programs/KEY.bin     a compiled program; KEY is the SHA-256 of all that it is made from
//   headers/HASH.cuh     the generated text of a named robot; HASH is its own SHA-256
//   builds/NAME.build    a named robot: all that it is made from, and the keys of its programs
// Every file is written aside and renamed into place, so that readers and other writers, in any number of
// processes, see all of it or nothing, and needs no lock. Programs and builds begin with a manifest of lines
// that ends with a checksum over everything else in the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hjcdik::store {

// SHA-256 of the parts, each preceded by its length; hexadecimal.
std::string content_key(const std::vector<std::string_view>& parts);

// HJCDIK_CACHE_DIR, else GRID_RBD_CACHE_DIR/consumers/hjcdik, else XDG_CACHE_HOME/hjcdik, else
// ~/.cache/hjcdik; empty where none of them is set.
std::string default_folder();

// A second folder, only read, that is asked first: HJCDIK_STORE, else the one that was set, else "".
std::string packaged_folder();
void set_packaged_folder(std::string folder);

struct Entry {
  std::string compiler;  // its version
  std::string image;
};

std::string program_path(const std::string& folder, const std::string& key);

// Nothing where there is no entry of this key, or it cannot be read or is damaged; the latter two leave a
// note. A damaged entry stays until it is replaced: whoever removed it might hit its whole successor. `use`:
// counts as a use of it for the sweep, which changes the file's time.
std::optional<Entry> read(const std::string& folder, const std::string& key, bool use = true);

// False with the reason in `problem`, if given, where the folder cannot be written. Sweeps.
bool publish(const std::string& folder, const std::string& key, const Entry& entry,
             std::string* problem = nullptr);

struct Build {
  std::string name;               // in one line
  std::vector<std::string> keys;  // of programs and headers that are kept while this build is there
  std::string text;
};

// The name itself makes only a part of the file's: any name is safe.
std::string build_path(const std::string& folder, const std::string& name);

// Nothing with an empty `problem` where there is none of this name, else with the reason.
std::optional<Build> read_build(const std::string& folder, const std::string& name, std::string& problem);
// By name. What cannot be read is left out and leaves a note.
std::vector<Build> read_builds(const std::string& folder);
// Replaces a build of the same name.
bool publish_build(const std::string& folder, const Build& build, std::string* problem = nullptr);

// The path of headers/HASH.cuh with this text, written if it is not there; "" with the reason in `problem`.
std::string publish_header(const std::string& folder, const std::string& text,
                           std::string* problem = nullptr);

// Removes programs and headers that no build names, those unused for longest first, until all of them
// together are below `limit` bytes; none that was used in the last `grace` seconds, since it may be about to
// be named. Removes what killed writers left behind.
void sweep(const std::string& folder, std::uint64_t limit, std::int64_t grace);

// 1 GiB, or HJCDIK_CACHE_LIMIT_MB; 0: no limit.
std::uint64_t size_limit();

// What users should hear of but need not stop for: damaged entries, folders that cannot be written.
void note(std::string message);
// Those since the last call, at most the first 100.
std::vector<std::string> take_notes();

}  // namespace hjcdik::store
