// Compiled programs on disk, found by their content.
#pragma once

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

struct Entry {
  std::string compiler;  // its version
  std::string image;
};

// Nothing where there is no entry of this key, or it cannot be read or is damaged.
std::optional<Entry> read(const std::string& folder, const std::string& key);

// Published by writing aside and renaming, so that readers and other writers see all or nothing. False
// where the folder cannot be written; a cache that cannot be written is no error.
bool publish(const std::string& folder, const std::string& key, const Entry& entry);

}  // namespace hjcdik::store
