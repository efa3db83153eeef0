// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "json/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "rotary/error.h"

namespace rotary::internal {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Json parse(std::string_view text) { return parse_json(text, "test.json"); }

TEST(Json, BuildsObjectsFromPairs) {
  const Json json = {{"none", nullptr},
                     {"flag", true},
                     {"count", 3},
                     {"large", std::numeric_limits<std::uint64_t>::max()},
                     {"factor", 0.1},
                     {"text", "a\"b"},
                     {"list", std::vector<std::int64_t>{1, -2}},
                     {"inner", {{"key", "value"}}}};
  EXPECT_EQ(json.dump(),
            R"({"none":null,"flag":true,"count":3,"large":18446744073709551615,"factor":0.1,)"
            R"("text":"a\"b","list":[1,-2],"inner":{"key":"value"}})");
}

TEST(Json, AppendsMembersAndElements) {
  Json json;
  json["a"] = 1;
  json["b"].push_back("x");
  json["a"] = 2;
  json.update({{"c", false}, {"a", 3}});
  EXPECT_EQ(json.dump(), R"({"a":3,"b":["x"],"c":false})");
  EXPECT_EQ(Json::array().dump(), "[]");
  EXPECT_EQ(Json::object().dump(), "{}");
}

TEST(Json, TakesAndSortsMembers) {
  Json json = {{"c", 1}, {"a", 2}, {"b", 3}};
  EXPECT_EQ(json.take("c"), 1);
  EXPECT_TRUE(json.take("c").is_null());
  EXPECT_TRUE(Json(1).take("c").is_null());
  json["A"] = 4;
  json.sort();
  EXPECT_EQ(json.dump(), R"({"A":4,"a":2,"b":3})");
  EXPECT_EQ(json.dump_lines(), "{\n  \"A\": 4,\n  \"a\": 2,\n  \"b\": 3\n}\n");
}

TEST(Json, TellsUnsignedIntegers) {
  EXPECT_TRUE(Json(0).is_uint64());
  EXPECT_TRUE(Json(std::numeric_limits<std::uint64_t>::max()).is_uint64());
  EXPECT_FALSE(Json(-1).is_uint64());
  EXPECT_FALSE(Json(1.0).is_uint64());
}

TEST(Json, ExcerptsAreShortAndPrintable) {
  EXPECT_EQ(Json("a\x1b\xe2\x82\xac").excerpt(), R"("a\u001b\u20ac")");
  const std::string excerpt = Json(std::string(1000, 'x')).excerpt();
  EXPECT_EQ(excerpt.size(), 80u);
  EXPECT_TRUE(excerpt.ends_with("xxx..."));
}

TEST(Json, ReadsWhatItWrote) {
  const std::string text = R"({"a":[0.1,1e+300,-5,null,"\u00e9"],"b":{"c":9007199254740993}})";
  EXPECT_EQ(parse(text), parse(parse(text).dump()));
  EXPECT_EQ(parse(text).at("b").at("c").as_int64(), 9007199254740993);
  EXPECT_EQ(parse("0.1").as_double(), 0.1);
}

TEST(Json, SortsMembersAndKeepsTheLastOfEqualKeys) {
  EXPECT_EQ(parse(R"({"b":1,"a":2,"b":3,"a":4,"c":5,"b":6})").dump(), R"({"a":4,"b":6,"c":5})");
}

TEST(Json, ReadsThePythonNamesOfNonFiniteNumbersAsNull) {
  EXPECT_EQ(parse(R"([NaN, Infinity, -Infinity, "NaN", -1])").dump(),
            R"([null,null,null,"NaN",-1])");
}

TEST(Json, ComparesNumbersByValueAndObjectsWithoutOrder) {
  EXPECT_EQ(Json(1), Json(1.0));
  EXPECT_EQ(Json(1u), Json(1));
  EXPECT_NE(Json(1), Json(true));
  EXPECT_NE(Json(1), Json("1"));
  EXPECT_EQ((Json{{"a", 1}, {"b", 2}}), (Json{{"b", 2}, {"a", 1}}));
  EXPECT_NE((Json{{"a", 1}, {"b", 2}}), (Json{{"b", 2}, {"a", 2}}));
  EXPECT_NE((Json{{"a", 1}}), (Json{{"a", 1}, {"b", 2}}));
  EXPECT_EQ(parse("[1,[2]]"), parse("[1.0,[2]]"));
  EXPECT_NE(parse("[1,[2]]"), parse("[1,[2,3]]"));
}

TEST(Json, TellsTheTypeOfAValueOfAnotherType) {
  EXPECT_THAT([] { static_cast<void>(Json("x").as_double()); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("expected a number, got string")));
  EXPECT_THROW(static_cast<void>(Json(1.5).as_int64()), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(Json(-1).as_uint64()), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(Json(1).elements()), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(Json(1).at("key")), std::invalid_argument);
  EXPECT_EQ(Json(1).find("key"), nullptr);
}

TEST(Json, ReplacesInvalidUtf8OrSaysSo) {
  const Json json = {{"name", "a\xff"}};
  EXPECT_EQ(json.dump(), "{\"name\":\"a\xEF\xBF\xBD\"}");
  EXPECT_EQ(json.dump_strict(), std::nullopt);
  EXPECT_EQ(Json("a").dump_strict(), "\"a\"");
}

TEST(ParseJson, RejectsInvalidTextWithItsOffset) {
  EXPECT_THAT([] { parse("{\"a\": tru}"); }, ThrowsMessage<IoError>(HasSubstr("not valid JSON")));
  try {
    parse("[1, 2");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.offset(), 5);
  }
  try {
    parse("[NaN, NaN, -Infinity, tru]");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.offset(), 25);
  }
  EXPECT_THROW(parse(""), IoError);
  EXPECT_THROW(parse("1 2"), IoError);
  EXPECT_THROW(parse(std::string_view("1\0", 2)), IoError);
  EXPECT_THROW(parse(std::string_view("[\"a\0b\"]", 8)), IoError);
  EXPECT_THROW(parse("\"\xff\""), IoError);
  EXPECT_THAT([] { parse("1e999"); }, ThrowsMessage<IoError>(HasSubstr("1e999")));
}

TEST(ParseJson, OrTries) {
  EXPECT_EQ(try_parse_json("[1]"), parse("[1]"));
  EXPECT_TRUE(try_parse_json("[1").is_null());
  EXPECT_TRUE(try_parse_json(std::string(1000, '[')).is_null());
}

TEST(ParseJson, RejectsDeepNesting) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(parse(nested(65)));
  EXPECT_THAT([&] { parse(nested(66)); }, ThrowsMessage<IoError>(HasSubstr("64 levels")));
  EXPECT_THROW(parse(nested(1'000'000)), IoError);
  EXPECT_THROW(parse(std::string(1'000'000, '[')), IoError);
}

// Many keys: neither reading nor comparing is quadratic.
TEST(ParseJson, ReadsObjectsWithManyKeys) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"k" + std::to_string(i) + "\":1,";
  text.back() = '}';
  const Json json = parse(text);
  EXPECT_EQ(json.size(), 200'000u);
  EXPECT_EQ(json, parse(text));
}

// Nor is that of many small values.
TEST(ParseJson, ReadsManySmallValues) {
  const auto list = [](const std::string& value, std::size_t count) {
    std::string text = "[";
    for (std::size_t i = 0; i < count; ++i) text += value + ",";
    text.back() = ']';
    return text;
  };
  EXPECT_EQ(parse(list("NaN", 400'000)).size(), 400'000u);
  EXPECT_EQ(parse(list("{}", 400'000)).size(), 400'000u);
  EXPECT_EQ(parse(list("[[]]", 200'000)).size(), 200'000u);
}

}  // namespace
}  // namespace rotary::internal
