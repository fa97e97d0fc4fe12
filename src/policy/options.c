#include "policy/policy.h"

#include <stdio.h>
#include <string.h>

/* Reads "digits[.digits]" times `scale` exactly; more decimals than the scale has are malformed.
 * Returns the end; NULL when malformed. */
static const char *read_decimal(const char *text, int64_t scale, int64_t *out_value) {
    bool negative = *text == '-';
    const char *at = text + negative;
    if (*at < '0' || *at > '9')
        return NULL;
    int64_t value = 0;
    bool in_fraction = false;
    int64_t unit = scale;
    for (;; at++) {
        if (*at == '.' && !in_fraction && at[1] >= '0' && at[1] <= '9') {
            in_fraction = true;
            continue;
        }
        if (*at < '0' || *at > '9')
            break;
        int64_t digit = *at - '0';
        if (in_fraction) {
            if (unit < 10) { /* finer than the unit: only zeros may follow */
                if (digit != 0)
                    return NULL;
                continue;
            }
            unit /= 10;
            if (__builtin_add_overflow(value, digit * unit, &value))
                return NULL;
        } else if (__builtin_mul_overflow(value, 10, &value) ||
                   __builtin_add_overflow(value, digit * scale, &value)) {
            return NULL;
        }
    }
    *out_value = negative ? -value : value;
    return at;
}

static bool parse_choice(const char *choices, const char *value, int64_t *out) {
    size_t length = strlen(value);
    int64_t index = 0;
    for (const char *at = choices;; index++) {
        const char *end = strchr(at, '|');
        size_t width = end ? (size_t)(end - at) : strlen(at);
        if (width == length && memcmp(at, value, length) == 0) {
            *out = index;
            return true;
        }
        if (!end)
            return false;
        at = end + 1;
    }
}

static bool parse_duration(const char *value, int64_t *out) {
    static const struct {
        const char *unit;
        int64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    for (size_t i = 0; i < TT_COUNT(units); i++) {
        const char *end = read_decimal(value, units[i].ns, out);
        if (end && strcmp(end, units[i].unit) == 0)
            return true;
    }
    return strcmp(value, "0") == 0 && (*out = 0, true);
}

static bool parse_permille(const char *value, int64_t *out) {
    const char *end = read_decimal(value, 1000, out);
    if (end && *end == '\0')
        return true;
    end = read_decimal(value, 10, out);
    return end && strcmp(end, "%") == 0;
}

/* Reads "1,2,4" up to its end, or up to a `;`, into sizes[limit] (NULL: only counts). Returns the
 * count; -1 when malformed. */
static int64_t read_group(const char *text, int32_t *sizes, int64_t limit, const char **out_end) {
    int64_t count = 0;
    for (const char *at = text;; at++) {
        int64_t size;
        if (*at < '0' || *at > '9')
            return -1;
        at = read_decimal(at, 1, &size);
        if (!at || size < 1 || size > TT_PROFILE_MAX_BATCH)
            return -1;
        if (sizes && count < limit)
            sizes[count] = (int32_t)size;
        count++;
        if (*at == '\0' || *at == ';') {
            *out_end = at;
            return count;
        }
        if (*at != ',')
            return -1;
    }
}

static int64_t read_sizes(const char *text, int32_t *sizes, int64_t limit) {
    const char *end;
    int64_t count = read_group(text, sizes, limit, &end);
    return count > 0 && *end != '\0' ? -1 : count;
}

/* Returns the number of groups; -1 when malformed. */
static int64_t count_groups(const char *text) {
    const char *end;
    for (int64_t count = 1; read_group(text, NULL, 0, &end) > 0; count++) {
        if (*end == '\0')
            return count;
        text = end + 1;
    }
    return -1;
}

const char *tt_options_value(const char *key, const struct tt_option *options,
                             int32_t option_count) {
    for (int32_t i = 0; i < option_count; i++)
        if (strcmp(options[i].key, key) == 0)
            return options[i].value;
    return NULL;
}

bool tt_options_have(struct tt_option wanted, const struct tt_option *options,
                     int32_t option_count) {
    const char *value = wanted.key ? tt_options_value(wanted.key, options, option_count) : NULL;
    return value && strcmp(value, wanted.value) == 0;
}

int32_t tt_options_sizes(const char *key, const struct tt_option *options, int32_t option_count,
                         int32_t *out_sizes, int32_t limit) {
    const char *value = tt_options_value(key, options, option_count);
    return value ? (int32_t)read_sizes(value, out_sizes, limit) : 0;
}

int32_t tt_options_group(const char *key, const struct tt_option *options, int32_t option_count,
                         int32_t index, int32_t *out_sizes, int32_t limit) {
    const char *at = tt_options_value(key, options, option_count);
    for (; at && index > 0; index--) {
        at = strchr(at, ';');
        at = at ? at + 1 : NULL;
    }
    const char *end;
    return at ? (int32_t)read_group(at, out_sizes, limit, &end) : 0;
}

bool tt_options_same(const struct tt_option *a, int32_t a_count, const struct tt_option *b,
                     int32_t b_count) {
    if (a_count != b_count)
        return false;
    for (int32_t i = 0; i < a_count; i++)
        if (strcmp(a[i].key, b[i].key) != 0 || strcmp(a[i].value, b[i].value) != 0)
            return false;
    return true;
}

static const char *wanted(const struct tt_option_spec *spec, char *out, size_t capacity) {
    long long low = (long long)spec->minimum, high = (long long)spec->maximum;
    switch (spec->type) {
    case TT_OPTION_INTEGER:
        snprintf(out, capacity, "an integer from %lld to %lld", low, high);
        break;
    case TT_OPTION_DURATION:
        snprintf(out, capacity, "a duration such as 250us or 5ms, from %lldns to %lldns", low,
                 high);
        break;
    case TT_OPTION_PERMILLE:
        snprintf(out, capacity, "a share such as 0.75 or 75%%, from %lld to %lld permille", low,
                 high);
        break;
    case TT_OPTION_CHOICE: snprintf(out, capacity, "one of %s", spec->choices); break;
    case TT_OPTION_SIZES:
        snprintf(out, capacity, "%lld to %lld whole numbers from 1 to %d such as 1,2,4", low, high,
                 TT_PROFILE_MAX_BATCH);
        break;
    case TT_OPTION_GROUPS:
        snprintf(out, capacity,
                 "%lld to %lld groups of whole numbers from 1 to %d such as 4;4,4;8,8,16", low,
                 high, TT_PROFILE_MAX_BATCH);
        break;
    }
    return out;
}

static enum tt_err parse_one(const struct tt_option_spec *spec, const char *value, int64_t *out,
                             struct tt_error *why) {
    bool good = false;
    const char *end;
    switch (spec->type) {
    case TT_OPTION_INTEGER:
        end = read_decimal(value, 1, out);
        good = end && *end == '\0';
        break;
    case TT_OPTION_DURATION: good = parse_duration(value, out); break;
    case TT_OPTION_PERMILLE: good = parse_permille(value, out); break;
    case TT_OPTION_CHOICE: good = parse_choice(spec->choices, value, out); break;
    case TT_OPTION_SIZES:
        *out = read_sizes(value, NULL, 0);
        good = *out > 0;
        break;
    case TT_OPTION_GROUPS:
        *out = count_groups(value);
        good = *out > 0;
        break;
    }
    if (good &&
        (spec->type == TT_OPTION_CHOICE || (*out >= spec->minimum && *out <= spec->maximum)))
        return TT_OK;
    char text[256];
    return tt_fail(TT_ERR_INVALID, why, "option %s: '%s' is not %s", spec->key, value,
                   wanted(spec, text, sizeof(text)));
}

enum tt_err tt_options_parse(const struct tt_option_spec *specs, int32_t spec_count,
                             const struct tt_option *options, int32_t option_count,
                             int64_t *out_values, struct tt_error *why) {
    tt_assert(spec_count <= TT_MAX_OPTIONS);
    bool given[TT_MAX_OPTIONS] = {false};
    int64_t values[TT_MAX_OPTIONS];
    for (int32_t i = 0; i < spec_count; i++)
        values[i] = specs[i].default_value;
    for (int32_t k = 0; k < option_count; k++) {
        int32_t i = 0;
        while (i < spec_count && strcmp(specs[i].key, options[k].key) != 0)
            i++;
        if (i == spec_count) {
            char known[512] = "it has none";
            for (int32_t s = 0, used = 0; s < spec_count && used < (int32_t)sizeof(known); s++)
                used += snprintf(known + used, sizeof(known) - (size_t)used, s ? ", %s" : "%s",
                                 specs[s].key);
            return tt_fail(TT_ERR_INVALID, why, "no option '%s'; its options: %s", options[k].key,
                           known);
        }
        if (given[i])
            return tt_fail(TT_ERR_INVALID, why, "option %s is given twice", options[k].key);
        given[i] = true;
        enum tt_err err = parse_one(&specs[i], options[k].value, &values[i], why);
        if (err)
            return err;
    }
    memcpy(out_values, values, (size_t)spec_count * sizeof(values[0]));
    return TT_OK;
}
