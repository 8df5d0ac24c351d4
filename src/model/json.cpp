#include "model/json.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <unordered_set>

// C++ streams bring locales into a static link.
#define JSON_NO_IO
#include <nlohmann/json.hpp>

#include "model/names.hpp"

namespace hjcdik::model {

namespace {

constexpr std::size_t kDeepest = 32;  // a tree is destroyed level by level on the stack
constexpr std::size_t kLongestReason = 300;

// Counts what the parser has consumed: its events do not say where they are.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* consumed) : at_(at), consumed_(consumed) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_, ++*consumed_;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return a.at_ != b.at_; }

 private:
  const char* at_;
  std::size_t* consumed_;
};

// Builds the tree from the parser's events.
class Builder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  explicit Builder(const SourceText& source) : source_(source) {}

  Json build() {
    const char* begin = source_.text().data();
    nlohmann::json::sax_parse(CountingIterator(begin, &consumed_),
                              CountingIterator(begin + source_.text().size(), &consumed_), this);
    return std::move(root_);
  }

  bool null() { return add(Json::Kind::null); }
  bool boolean(bool x) {
    add(Json::Kind::boolean);
    last_->number = x ? 1 : 0;
    return true;
  }
  bool number_integer(number_integer_t x) { return add_number(static_cast<double>(x)); }
  bool number_unsigned(number_unsigned_t x) { return add_number(static_cast<double>(x)); }
  bool number_float(number_float_t x, const string_t&) { return add_number(x); }
  bool string(string_t& text) {
    add(Json::Kind::string);
    last_->string = std::move(text);
    return true;
  }
  bool binary(binary_t&) { return false; }

  bool start_array(std::size_t) { return open(Json::Kind::array); }
  bool start_object(std::size_t) {
    keys_.emplace_back();
    return open(Json::Kind::object);
  }
  bool end_array() { return close(); }
  bool end_object() {
    keys_.pop_back();
    return close();
  }
  bool key(string_t& name) {
    if (!keys_.back().insert(name).second) {
      source_.fail(line(), "", "the key " + in_quotes(name) + " is given twice");
    }
    open_.back()->members.emplace_back(std::move(name), Json{});
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) {
    // Its words begin with a tag and a place of their own, and may end with what it read last, which need not
    // be whole characters.
    std::string words = error.what();
    words = words.substr(0, std::min(words.find("; last read"), kLongestReason));
    const std::size_t reason = words.find(": ");
    source_.fail(source_.line_at(position > 0 ? position - 1 : 0), "",
                 "malformed JSON: " + (reason == words.npos ? words : words.substr(reason + 2)));
  }

 private:
  // The last byte may be one beyond a number's end.
  int line() const { return source_.line_at(consumed_ > 0 ? consumed_ - 1 : 0); }

  bool add(Json::Kind kind) {
    if (open_.empty()) {
      last_ = &root_;
    } else if (open_.back()->kind == Json::Kind::array) {
      last_ = &open_.back()->items.emplace_back();
    } else {
      last_ = &open_.back()->members.back().second;
    }
    last_->kind = kind;
    last_->line = line();
    return true;
  }
  bool add_number(double x) {
    add(Json::Kind::number);
    last_->number = x;
    return true;
  }
  bool open(Json::Kind kind) {
    add(kind);
    if (open_.size() == kDeepest) source_.fail(line(), "", "nested deeper than 32 levels");
    open_.push_back(last_);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const SourceText& source_;
  std::size_t consumed_ = 0;
  Json root_;
  Json* last_ = nullptr;
  // Of the levels that are not closed. Their addresses hold: only the innermost level grows.
  std::vector<Json*> open_;
  std::vector<std::unordered_set<std::string>> keys_;
};

}  // namespace

const char* to_string(Json::Kind kind) noexcept {
  switch (kind) {
    case Json::Kind::null: return "null";
    case Json::Kind::boolean: return "true or false";
    case Json::Kind::number: return "a number";
    case Json::Kind::string: return "a text";
    case Json::Kind::array: return "a list";
    case Json::Kind::object: return "an object";
  }
  return "unknown";
}

Json parse_json(const SourceText& source) { return Builder(source).build(); }

}  // namespace hjcdik::model
