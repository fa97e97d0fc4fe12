#include "net/kserve/kserve_bodies.h"

#include "base/array.h"
#include "base/utf8.h"
#include "net/json/json_scan.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_KEY_BYTES = 1024 };

typedef enum tt_err member_fn(struct tt_json *json, const char *key, void *context);

/* Reads an object and calls `take` for each member, which must consume its value. */
static enum tt_err read_object(struct tt_json *json, member_fn *take, void *context) {
    enum tt_err err = tt_json_open(json, '{');
    bool first = true, more = false;
    char key[MAX_KEY_BYTES];
    while (!err) {
        err = tt_json_next(json, '}', &first, &more);
        if (err || !more)
            break;
        err = tt_json_key(json, key, sizeof(key));
        if (!err)
            err = take(json, key, context);
    }
    return err;
}

static enum tt_err read_body(const char *body, size_t body_bytes, member_fn *take, void *context,
                             struct tt_error *why) {
    struct tt_json json;
    tt_json_init(&json, body, body_bytes, why);
    enum tt_err err = read_object(&json, take, context);
    return err ? err : tt_json_end(&json);
}

/* --- the index --- */

static enum tt_err take_index(struct tt_json *json, const char *key, void *context) {
    bool *only_ready = context;
    return strcmp(key, "ready") == 0 ? tt_json_bool(json, key, only_ready) : tt_json_skip(json);
}

enum tt_err tt_kserve_read_index(const char *body, size_t body_bytes, bool *out_only_ready,
                                 struct tt_error *why) {
    struct tt_json json;
    tt_json_init(&json, body, body_bytes, why);
    *out_only_ready = false;
    if (tt_json_peek(&json) == '\0' && json.at == json.end)
        return TT_OK;
    return read_body(body, body_bytes, take_index, out_only_ready, why);
}

/* --- shared memory --- */

struct region_reader {
    struct tt_kserve_region *region;
    bool has_key, has_size;
};

static enum tt_err take_region(struct tt_json *json, const char *key, void *context) {
    struct region_reader *reader = context;
    struct tt_kserve_region *region = reader->region;
    int64_t value = 0;
    if (strcmp(key, "key") == 0) {
        reader->has_key = true;
        return tt_json_string_z(json, key, region->key, sizeof(region->key));
    }
    bool is_offset = strcmp(key, "offset") == 0;
    if (!is_offset && strcmp(key, "byte_size") != 0)
        return tt_json_skip(json);
    reader->has_size |= !is_offset;
    enum tt_err err = tt_json_integer(json, key, 0, INT64_MAX, &value);
    *(is_offset ? &region->offset : &region->size) = (uint64_t)value;
    return err;
}

enum tt_err tt_kserve_read_region(const char *body, size_t body_bytes,
                                  struct tt_kserve_region *out_region, struct tt_error *why) {
    *out_region = (struct tt_kserve_region){.size = 0};
    struct region_reader reader = {.region = out_region};
    enum tt_err err = read_body(body, body_bytes, take_region, &reader, why);
    if (!err && !(reader.has_key && reader.has_size))
        err =
            tt_fail(TT_ERR_INVALID, why, "\"%s\" is missing", reader.has_key ? "byte_size" : "key");
    return err;
}

/* --- load and unload --- */

static int base64_value(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+' || c == '-' ? 62
           : c == '/' || c == '_' ? 63
                                  : -1;
}

static bool is_blank(char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; }

/* Base64 with or without line breaks; `to` has room for 3 bytes for every 4 characters, and 3 more.
 * False: another character. */
static bool decode_base64(const char *text, size_t length, unsigned char *to, size_t *out_bytes) {
    size_t count = 0;
    uint32_t bits = 0;
    int held = 0;
    while (length && (text[length - 1] == '=' || is_blank(text[length - 1])))
        length--;
    for (size_t i = 0; i < length; i++) {
        int value = base64_value(text[i]);
        if (value < 0 && is_blank(text[i]))
            continue;
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held >= 8) {
            held -= 8;
            to[count++] = (unsigned char)(bits >> held);
        }
    }
    *out_bytes = count;
    return true;
}

struct load {
    struct tt_model_command *command;
    int64_t file_capacity;
    bool has_parameters;
    struct tt_error *why;
};

/* Reads a string, NUL-terminated, into allocated memory. */
static enum tt_err read_string(struct tt_json *json, const char *key, const char *wanted,
                               char **out_string, size_t *out_length, struct tt_error *why) {
    if (tt_json_peek(json) != '"')
        return tt_fail(TT_ERR_INVALID, why, "parameter '%s' must be a string %s", key, wanted);
    const char *from = json->at;
    size_t length = 0;
    enum tt_err err = tt_json_string(json, NULL, &length);
    if (err)
        return err;
    size_t written_bytes = (size_t)(json->at - from);
    char *string = malloc(written_bytes);
    if (!string)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for parameter '%s'", key);
    json->at = from;
    err = tt_json_string(json, string, &length);
    tt_assert(err == TT_OK);
    tt_assert(length < written_bytes); /* its quotes are not in it */
    string[length] = '\0';
    *out_string = string;
    *out_length = length;
    return TT_OK;
}

enum tt_err tt_kserve_refuse_load_parameter(const char *key, struct tt_error *why) {
    return tt_fail(TT_ERR_INVALID, why,
                   "unknown parameter '%s'; known are 'config', 'file:<version>/<name>' and "
                   "'unload_dependents'",
                   key);
}

enum tt_err tt_kserve_check_load_config(const char *text, size_t length, struct tt_error *why) {
    if (length > TT_KSERVE_MAX_CONFIG_BYTES)
        return tt_fail(TT_ERR_INVALID, why, "parameter 'config' has %zu bytes; the limit is %d",
                       length, (int)TT_KSERVE_MAX_CONFIG_BYTES);
    size_t values = 1;
    for (size_t i = 0; i < length; i++)
        values += text[i] == ',' || text[i] == '{' || text[i] == '[';
    if (values > TT_KSERVE_MAX_CONFIG_VALUES)
        return tt_fail(TT_ERR_INVALID, why, "parameter 'config' has %zu values; the limit is %d",
                       values, (int)TT_KSERVE_MAX_CONFIG_VALUES);
    if (memchr(text, '\0', length) || !tt_is_utf8(text, length))
        return tt_fail(TT_ERR_INVALID, why, "parameter 'config' must be UTF-8 text");
    return TT_OK;
}

static enum tt_err take_config(struct tt_json *json, struct load *load) {
    struct tt_model_command *command = load->command;
    size_t length = 0;
    if (command->config_json)
        return tt_fail(TT_ERR_INVALID, load->why, "parameter 'config' is given twice");
    enum tt_err err =
        read_string(json, "config", "that holds JSON", &command->config_json, &length, load->why);
    if (err)
        return err;
    return tt_kserve_check_load_config(command->config_json, length, load->why);
}

static const char file_prefix[] = "file:";
enum { FILE_PREFIX_BYTES = sizeof(file_prefix) - 1 };

static enum tt_err take_file(struct tt_json *json, const char *key, struct load *load) {
    struct tt_model_command *command = load->command;
    const char *path = key + FILE_PREFIX_BYTES;
    if (command->file_count == TT_KSERVE_MAX_FILES)
        return tt_fail(TT_ERR_INVALID, load->why, "more than %d files", TT_KSERVE_MAX_FILES);
    for (int32_t i = 0; i < command->file_count; i++)
        if (strcmp(command->files[i].path, path) == 0)
            return tt_fail(TT_ERR_INVALID, load->why, "parameter '%s' is given twice", key);
    if (!TT_ARRAY_RESERVE(command->files, &load->file_capacity, command->file_count + 1))
        return tt_fail(TT_ERR_NO_MEMORY, load->why, "no memory for parameter '%s'", key);
    char *string = NULL;
    size_t length = 0;
    enum tt_err err = read_string(json, key, "in base64", &string, &length, load->why);
    if (err)
        return err;
    struct tt_model_file file = {.path = strdup(path), .bytes = malloc(length / 4 * 3 + 3)};
    if (!file.path || !file.bytes)
        err = tt_fail(TT_ERR_NO_MEMORY, load->why, "no memory for parameter '%s'", key);
    else if (!decode_base64(string, length, file.bytes, &file.size_bytes))
        err = tt_fail(TT_ERR_INVALID, load->why, "parameter '%s' is not base64", key);
    free(string);
    if (err) {
        free(file.path);
        free(file.bytes);
        return err;
    }
    command->files[command->file_count++] = file;
    return TT_OK;
}

static enum tt_err take_parameter(struct tt_json *json, const char *key, void *context) {
    struct load *load = context;
    bool ignored;
    if (!tt_is_utf8(key, strlen(key)))
        return tt_fail(TT_ERR_INVALID, load->why, "a parameter's name must be UTF-8 text");
    if (strcmp(key, "config") == 0)
        return take_config(json, load);
    if (strncmp(key, file_prefix, FILE_PREFIX_BYTES) == 0)
        return take_file(json, key, load);
    if (strcmp(key, "unload_dependents") == 0) /* no model has dependents: nothing follows */
        return tt_json_bool(json, key, &ignored);
    return tt_kserve_refuse_load_parameter(key, load->why);
}

static enum tt_err take_load(struct tt_json *json, const char *key, void *context) {
    struct load *load = context;
    if (strcmp(key, "parameters") != 0)
        return tt_json_skip(json);
    if (load->has_parameters)
        return tt_fail(TT_ERR_INVALID, load->why, "\"parameters\" is given twice");
    load->has_parameters = true;
    enum tt_err err = read_object(json, take_parameter, load);
    return err ? tt_fail_in(err, load->why, "\"parameters\"") : TT_OK;
}

enum tt_err tt_kserve_read_load(const char *body, size_t body_bytes,
                                struct tt_model_command *command, struct tt_error *why) {
    struct load load = {.command = command, .why = why};
    tt_assert(command->file_count == 0);
    return body_bytes ? read_body(body, body_bytes, take_load, &load, why) : TT_OK;
}

/* --- settings --- */

struct log_change {
    struct tt_kserve_log_settings *settings;
    struct tt_error *why;
};

static enum tt_err take_log(struct tt_json *json, const char *key, void *context) {
    struct log_change *change = context;
    struct tt_kserve_log_settings *settings = change->settings;
    const struct {
        const char *key;
        uint32_t bit;
        bool *value;
    } switches[] = {{"log_error", TT_KSERVE_LOG_ERROR, &settings->error},
                    {"log_warning", TT_KSERVE_LOG_WARNING, &settings->warning},
                    {"log_info", TT_KSERVE_LOG_INFO, &settings->info}};
    for (size_t i = 0; i < TT_COUNT(switches); i++) {
        if (strcmp(key, switches[i].key) != 0)
            continue;
        settings->sets |= switches[i].bit;
        return tt_json_bool(json, key, switches[i].value);
    }
    if (strcmp(key, "log_verbose_level") == 0) {
        int64_t level = 0;
        enum tt_err err = tt_json_integer(json, key, 0, INT32_MAX, &level);
        settings->sets |= TT_KSERVE_LOG_VERBOSE;
        settings->verbose_level = (uint32_t)level;
        return err;
    }
    if (strcmp(key, "log_format") == 0) {
        char name[16] = "";
        enum tt_err err = tt_json_string_z(json, key, name, sizeof(name));
        settings->sets |= TT_KSERVE_LOG_FORMAT;
        settings->is_iso8601 = strcmp(name, "ISO8601") == 0;
        return err || settings->is_iso8601 || strcmp(name, "default") == 0
                   ? err
                   : tt_fail(TT_ERR_INVALID, change->why,
                             "log_format must be 'default' or 'ISO8601'");
    }
    return strcmp(key, "log_file") == 0
               ? tt_fail(TT_ERR_UNSUPPORTED, change->why, "log_file cannot be changed by a client")
               : tt_fail(TT_ERR_INVALID, change->why, "unknown log setting '%s'", key);
}

enum tt_err tt_kserve_read_log_change(const char *body, size_t body_bytes,
                                      struct tt_kserve_log_settings *out_change,
                                      struct tt_error *why) {
    struct tt_kserve_log_settings settings = {0};
    struct log_change change = {.settings = &settings, .why = why};
    enum tt_err err = read_body(body, body_bytes, take_log, &change, why);
    if (!err)
        *out_change = settings;
    return err;
}

static enum tt_err take_trace(struct tt_json *json, const char *key, void *context) {
    static const char *const known[] = {"trace_level",   "trace_rate", "trace_count",
                                        "log_frequency", "trace_file", "trace_mode"};
    struct tt_error *why = context;
    size_t i = 0;
    while (i < TT_COUNT(known) && strcmp(key, known[i]) != 0)
        i++;
    if (i == TT_COUNT(known))
        return tt_fail(TT_ERR_INVALID, why, "unknown trace setting '%s'", key);
    return tt_json_peek(json) == 'n' ? tt_json_skip(json)
                                     : tt_kserve_trace_settings_change(key, why);
}

enum tt_err tt_kserve_read_trace_change(const char *body, size_t body_bytes, struct tt_error *why) {
    return read_body(body, body_bytes, take_trace, why, why);
}
