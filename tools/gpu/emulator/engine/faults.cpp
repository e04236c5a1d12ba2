// What went wrong, in words, once for each kind and place.
#include "engine.h"

namespace emulator {

namespace {

std::string triple(uint3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

void add(std::string& text, const char* name, uint64_t value, const char* end = ", ") {
  text += "\"" + std::string(name) + "\": " + std::to_string(value) + end;
}

const char* name_of(Space space) {
  switch (space) {
    case Space::global_read: return "global read";
    case Space::global_write: return "global write";
    case Space::shared_read: return "shared read";
    case Space::shared_write: return "shared write";
    case Space::global_to_shared: return "asynchronous copy";
  }
  return "";
}

}  // namespace

std::string describe(const Block& block) { return "block " + triple(block.index); }

std::string describe(const Stamp& stamp) {
  std::string text = "warp " + std::to_string(stamp.warp);
  if (stamp.lane != whole_warp) text += " lane " + std::to_string(stamp.lane);
  if (current && stamp.block != current->block->serial) text += " of the block that started as number " + std::to_string(stamp.block - 1);
  return text;
}

std::string whereabouts(Site site) {
  std::string file = site.file ? site.file : "";
  const size_t slash = file.rfind('/');
  if (slash != std::string::npos) file = file.substr(slash + 1);
  return " at " + file + ":" + std::to_string(site.line);
}

void fault(const char* kind, const std::string& message) {
  uint64_t of_kind = 0;
  for (Fault& known : machine.faults) {
    if (known.kind != kind) continue;
    if (known.message == message || ++of_kind == 8) {
      ++known.count;
      return;
    }
  }
  machine.faults.push_back({kind, message, 1});
}

void fault(const char* kind, const std::string& message, Site site) {
  // One report for each kind and line; the thread is that which was seen first.
  const std::string place = whereabouts(site);
  for (Fault& known : machine.faults)
    if (known.kind == kind && known.message.size() >= place.size() &&
        known.message.compare(known.message.size() - place.size(), place.size(), place) == 0) {
      ++known.count;
      return;
    }
  std::string text = message;
  if (current) text += ", by thread " + triple(current->index) + " of " + describe(*current->block);
  machine.faults.push_back({kind, text + place, 1});
}

// The report as JSON, which the Python side reads.
void write_report() {
  std::string& text = machine.report;
  text = "{\"faults\": [";
  for (size_t i = 0; i < machine.faults.size(); ++i) {
    const Fault& known = machine.faults[i];
    text += std::string(i ? ", " : "") + "{\"kind\": \"" + known.kind + "\", \"message\": \"" + escaped(known.message) + "\", ";
    add(text, "count", known.count, "}");
  }
  text += "], \"arrays\": {";
  for (size_t i = 0; i < machine.arrays.size(); ++i) {
    const GlobalArray& array = machine.arrays[i];
    text += std::string(i ? ", " : "") + "\"" + array.name + "\": {";
    add(text, "read", array.read);
    add(text, "written", array.written);
    add(text, "read_sectors", array.read_sectors);
    add(text, "write_sectors", array.write_sectors, "}");
  }
  text += "}, \"sites\": [";
  bool first = true;
  for (const auto& [key, count] : machine.sites) {
    text += std::string(first ? "" : ", ") + "{\"place\": \"" + escaped(whereabouts({key.file, key.line}).substr(4)) + "\", \"what\": \"" +
            name_of(key.space) + "\", ";
    first = false;
    add(text, "requests", count.requests);
    add(text, "bytes", count.bytes);
    add(text, "sectors", count.sectors);
    add(text, "wavefronts", count.wavefronts);
    add(text, "ideal", count.ideal, "}");
  }
  text += "], \"width_bytes\": {";
  for (unsigned width = 1; width <= 16; width *= 2)
    add(text, std::to_string(width).c_str(), machine.counters.width_bytes[width], width == 16 ? "}, " : ", ");
  const Counters& counters = machine.counters;
  add(text, "block_barriers", counters.block_barriers);
  add(text, "warp_barriers", counters.warp_barriers);
  add(text, "shuffles", counters.shuffles);
  add(text, "votes", counters.votes);
  add(text, "multiplies", counters.multiplies);
  add(text, "atomics", counters.atomics);
  add(text, "fences", counters.fences);
  add(text, "polls", counters.polls);
  add(text, "copies", counters.copies);
  add(text, "switches", counters.switches);
  add(text, "static_shared_bytes", machine.shared_bytes - (machine.dynamic_base ? machine.dynamic_room : 0), "}");
}

}  // namespace emulator
