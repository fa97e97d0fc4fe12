/* The settings' half of kserve_pages.h: trace and log settings, read and changed. Where files are
 * written is for whoever starts the server to say, never for a client. */
#include "net/kserve/kserve_pages.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The body as an object, or NULL with the reply filled. */
static json_t *read_object(const char *body, size_t body_bytes, struct tt_reply *reply) {
    json_error_t problem;
    json_t *root = json_loadb(body, body_bytes, JSON_REJECT_DUPLICATES, &problem);
    if (root && json_is_object(root))
        return root;
    struct tt_error why;
    tt_fail(TT_ERR_INVALID, &why, root ? "expected an object of settings" : "JSON: %s",
            root ? "" : problem.text);
    json_decref(root);
    tt_reply_error(reply, TT_ERR_INVALID, why.text);
    return NULL;
}

/* --- tracing --- */

static enum tt_err take_level(const char *name, uint32_t *levels, struct tt_error *why) {
    if (strcmp(name, "OFF") == 0)
        return TT_OK;
    if (strcmp(name, "TIMESTAMPS") == 0)
        *levels |= TT_TRACE_TIMESTAMPS;
    else if (strcmp(name, "TENSORS") == 0)
        *levels |= TT_TRACE_TENSORS;
    else
        return tt_fail(TT_ERR_INVALID, why,
                       "trace_level '%s' is unknown; known are OFF, TIMESTAMPS and TENSORS", name);
    return TT_OK;
}

static enum tt_err take_levels(json_t *value, uint32_t *out_levels, struct tt_error *why) {
    uint32_t levels = 0;
    enum tt_err err = TT_OK;
    size_t i;
    json_t *item;
    if (json_is_string(value))
        err = take_level(json_string_value(value), &levels, why);
    else if (!json_is_array(value))
        return tt_fail(TT_ERR_INVALID, why, "trace_level must be a list of strings");
    json_array_foreach(value, i, item) {
        if (!json_is_string(item))
            return tt_fail(TT_ERR_INVALID, why, "trace_level must be a list of strings");
        if (!err)
            err = take_level(json_string_value(item), &levels, why);
    }
    *out_levels = levels;
    return err;
}

/* Numbers come as strings from the protocol's clients; as themselves is fine, too. */
static enum tt_err take_number(const char *key, json_t *value, int64_t lowest, int64_t *out_number,
                               struct tt_error *why) {
    int64_t number = lowest - 1;
    if (json_is_integer(value)) {
        number = json_integer_value(value);
    } else if (json_is_string(value)) {
        const char *text = json_string_value(value);
        char *end;
        errno = 0;
        number = strtoll(text, &end, 10);
        if (errno || !*text || *end)
            number = lowest - 1;
    }
    if (number < lowest)
        return tt_fail(TT_ERR_INVALID, why, "%s must be a whole number from %lld on", key,
                       (long long)lowest);
    *out_number = number;
    return TT_OK;
}

static enum tt_err take_trace(const char *key, json_t *value, struct tt_trace_change *change,
                              struct tt_error *why) {
    static const struct {
        const char *key;
        uint32_t bit;
        int64_t lowest;
    } known[] = {{"trace_level", TT_TRACE_LEVELS, 0},
                 {"trace_rate", TT_TRACE_RATE, 1},
                 {"trace_count", TT_TRACE_COUNT, -1},
                 {"log_frequency", TT_TRACE_LOG_FREQUENCY, 0}};
    size_t i = 0;
    while (i < TT_COUNT(known) && strcmp(key, known[i].key) != 0)
        i++;
    if (i == TT_COUNT(known))
        return strcmp(key, "trace_file") == 0 || strcmp(key, "trace_mode") == 0
                   ? tt_fail(TT_ERR_UNSUPPORTED, why, "%s cannot be changed by a client", key)
                   : tt_fail(TT_ERR_INVALID, why, "unknown trace setting '%s'", key);
    if (json_is_null(value)) {
        change->clears |= known[i].bit;
        return TT_OK;
    }
    change->sets |= known[i].bit;
    int64_t *numbers[] = {NULL, &change->values.rate, &change->values.count,
                          &change->values.log_frequency};
    return i == 0 ? take_levels(value, &change->values.levels, why)
                  : take_number(key, value, known[i].lowest, numbers[i], why);
}

static enum tt_err change_trace(const struct tt_route_world *world, const char *model, json_t *root,
                                struct tt_error *why) {
    struct tt_trace_change change = {0};
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        enum tt_err err = take_trace(key, value, &change, why);
        if (err)
            return err;
    }
    enum tt_err err = tt_trace_settings_change(world->trace, model, &change);
    return err ? tt_fail(err, why, "out of memory for the settings") : TT_OK;
}

static void say_trace(const struct tt_trace_setting *setting, struct tt_text *json) {
    tt_text_puts(json, "{\"trace_level\":[");
    tt_text_puts(json, setting->levels & TT_TRACE_TIMESTAMPS ? "\"TIMESTAMPS\"" : "");
    tt_text_puts(json, setting->levels == (TT_TRACE_TIMESTAMPS | TT_TRACE_TENSORS) ? "," : "");
    tt_text_puts(json, setting->levels & TT_TRACE_TENSORS ? "\"TENSORS\"" : "");
    tt_text_puts(json, setting->levels ? "" : "\"OFF\"");
    tt_text_printf(json,
                   "],\"trace_rate\":\"%lld\",\"trace_count\":\"%lld\",\"log_frequency\":"
                   "\"%lld\",\"trace_file\":\"\",\"trace_mode\":\"triton\"}",
                   (long long)setting->rate, (long long)setting->count,
                   (long long)setting->log_frequency);
}

void tt_page_trace(const struct tt_route_world *world, const char *model, bool changes,
                   const char *body, size_t body_bytes, struct tt_reply *reply) {
    struct tt_error why = {{0}};
    struct tt_served_model *served;
    enum tt_err err = model ? tt_serving_find(world->port, model, "", &served, &why) : TT_OK;
    if (!err && !world->trace)
        err = tt_fail(TT_ERR_UNSUPPORTED, &why, "this server does not trace");
    if (!err && changes) {
        json_t *root = read_object(body, body_bytes, reply);
        if (!root)
            return;
        err = change_trace(world, model, root, &why);
        json_decref(root);
    }
    if (err) {
        tt_reply_error(reply, err, why.text);
        return;
    }
    struct tt_trace_setting setting;
    tt_trace_settings_get(world->trace, model, &setting);
    say_trace(&setting, tt_reply_json(reply));
}

/* --- logging --- */

static const struct {
    const char *key;
    enum tt_log_level level;
} log_switches[] = {
    {"log_error", TT_LOG_ERROR}, {"log_warning", TT_LOG_WARNING}, {"log_info", TT_LOG_INFO}};

/* Checks the setting, and where `log` is given takes it over. */
static enum tt_err take_log(const char *key, json_t *value, struct tt_log_settings *log,
                            struct tt_error *why) {
    for (size_t i = 0; i < TT_COUNT(log_switches); i++) {
        if (strcmp(key, log_switches[i].key) != 0)
            continue;
        if (!json_is_boolean(value))
            return tt_fail(TT_ERR_INVALID, why, "%s must be true or false", key);
        if (log)
            tt_log_settings_switch(log, log_switches[i].level, json_is_true(value));
        return TT_OK;
    }
    if (strcmp(key, "log_verbose_level") == 0) {
        if (!json_is_integer(value) || json_integer_value(value) < 0 ||
            json_integer_value(value) > INT32_MAX)
            return tt_fail(TT_ERR_INVALID, why, "%s must be a whole number from 0 on", key);
        if (log)
            tt_log_settings_set_verbose(log, (uint32_t)json_integer_value(value));
        return TT_OK;
    }
    if (strcmp(key, "log_format") == 0) {
        const char *name = json_is_string(value) ? json_string_value(value) : "";
        bool is_iso = strcmp(name, "ISO8601") == 0;
        if (!is_iso && strcmp(name, "default") != 0)
            return tt_fail(TT_ERR_INVALID, why, "log_format must be 'default' or 'ISO8601'");
        if (log)
            tt_log_settings_set_iso8601(log, is_iso);
        return TT_OK;
    }
    return strcmp(key, "log_file") == 0
               ? tt_fail(TT_ERR_UNSUPPORTED, why, "log_file cannot be changed by a client")
               : tt_fail(TT_ERR_INVALID, why, "unknown log setting '%s'", key);
}

static enum tt_err take_logs(json_t *root, struct tt_log_settings *log, struct tt_error *why) {
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        enum tt_err err = take_log(key, value, log, why);
        if (err)
            return err;
    }
    return TT_OK;
}

static void say_log(const struct tt_log_settings *log, struct tt_text *json) {
    tt_text_puts(json, "{\"log_file\":\"\"");
    for (size_t i = TT_COUNT(log_switches); i-- > 0;)
        tt_text_printf(json, ",\"%s\":%s", log_switches[i].key,
                       tt_log_settings_on(log, log_switches[i].level) ? "true" : "false");
    tt_text_printf(json, ",\"log_verbose_level\":%u,\"log_format\":\"%s\"}",
                   tt_log_settings_verbose(log),
                   tt_log_settings_iso8601(log) ? "ISO8601" : "default");
}

void tt_page_logging(const struct tt_route_world *world, bool changes, const char *body,
                     size_t body_bytes, struct tt_reply *reply) {
    if (!world->log) {
        tt_reply_error(reply, TT_ERR_UNSUPPORTED, "this server has no log settings");
        return;
    }
    json_t *root = changes ? read_object(body, body_bytes, reply) : NULL;
    if (changes && !root)
        return;
    struct tt_error why;
    /* All are looked at before the first is taken. */
    enum tt_err err = take_logs(root, NULL, &why);
    if (!err)
        err = take_logs(root, world->log, &why);
    json_decref(root);
    if (err)
        tt_reply_error(reply, err, why.text);
    else
        say_log(world->log, tt_reply_json(reply));
}
