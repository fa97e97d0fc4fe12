#include "lab/facts/fact_conditions.h"

#include "base/clock.h"
#include "base/processors.h"
#include "profile/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BUSY_FIELDS = 8, IDLE = 3, WAITS = 4 }; /* columns of /proc/stat, from `user` to `steal` */
#define S_NS 1e9

/* Processor time that all processes, the system and other machines of the host used; -1: unknown.
 */
static int64_t machine_ns(void) {
    FILE *file = fopen("/proc/stat", "re");
    long long ticks[BUSY_FIELDS] = {0}, busy = 0;
    int read =
        file ? fscanf(file, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &ticks[0], &ticks[1],
                      &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7])
             : 0;
    if (file)
        fclose(file);
    for (int i = 0; i < BUSY_FIELDS; i++)
        busy += i == IDLE || i == WAITS ? 0 : ticks[i];
    return read == BUSY_FIELDS ? busy * (int64_t)(S_NS / (double)sysconf(_SC_CLK_TCK)) : -1;
}

static int64_t time_ns(const struct timeval *time) {
    return (int64_t)time->tv_sec * (int64_t)S_NS + (int64_t)time->tv_usec * 1000;
}

static int64_t own_ns(void) {
    int64_t sum = 0;
    static const int which[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    for (size_t i = 0; i < TT_COUNT(which); i++) {
        struct rusage usage;
        getrusage(which[i], &usage);
        sum += time_ns(&usage.ru_utime) + time_ns(&usage.ru_stime);
    }
    return sum;
}

void tt_fact_conditions_begin(struct tt_fact_conditions *self) {
    *self = (struct tt_fact_conditions){
        .began_at = tt_clock_now(), .machine_ns = machine_ns(), .own_ns = own_ns()};
    if (getloadavg(&self->load_average, 1) != 1)
        self->load_average = -1;
    tt_machine_date(self->date, sizeof(self->date));
}

json_t *tt_fact_conditions_end(const struct tt_fact_conditions *self) {
    char machine[256];
    int64_t took_ns = tt_clock_now() - self->began_at, now_ns = machine_ns();
    double others_ns = (double)(now_ns - self->machine_ns - (own_ns() - self->own_ns));
    bool is_known = self->machine_ns >= 0 && now_ns >= 0 && took_ns > 0;
    /* The machine's time is in ticks of 10 ms: short runs may seem to use more than all of it. */
    double others = others_ns > 0 && took_ns > 0 ? others_ns / (double)took_ns : 0;
    return json_pack("{s:s,s:s,s:i,s:f,s:o,s:o}", "date", self->date, "machine",
                     tt_machine_processor(machine, sizeof(machine)), "cores",
                     (int)tt_processors_usable(), "took_s", (double)took_ns / S_NS, "load_average",
                     self->load_average >= 0 ? json_real(self->load_average) : json_null(),
                     "others", is_known ? json_real(others) : json_null());
}

/* The larger one of the number and of that in `object`, if it has one. */
static double larger(double number, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    double other = json_is_number(value) ? json_number_value(value) : number;
    return other > number ? other : number;
}

static bool is_doubtful(const json_t *result) {
    return json_is_true(json_object_get(result, "doubtful")) ||
           json_is_true(json_object_get(json_object_get(result, "live"), "doubtful"));
}

void tt_fact_conditions_add(struct tt_fact_conditions_sum *self, const json_t *result) {
    const json_t *conditions = json_object_get(result, "conditions");
    const char *date = json_string_value(json_object_get(conditions, "date"));
    if (!date)
        return;
    if (self->count == 0)
        self->others = self->load_average = -1;
    if (self->count == 0 || strcmp(date, self->first_date) < 0)
        snprintf(self->first_date, sizeof(self->first_date), "%s", date);
    if (self->count == 0 || strcmp(date, self->last_date) > 0)
        snprintf(self->last_date, sizeof(self->last_date), "%s", date);
    self->cores = (int32_t)json_integer_value(json_object_get(conditions, "cores"));
    self->others = larger(self->others, conditions, "others");
    self->load_average = larger(self->load_average, conditions, "load_average");
    self->doubtful += is_doubtful(result);
    const char *left_out =
        json_string_value(json_object_get(json_object_get(result, "live"), "left_out"));
    if (left_out && left_out[0])
        snprintf(self->left_out, sizeof(self->left_out), "%s", left_out);
    self->count++;
}

void tt_fact_conditions_describe(const struct tt_fact_conditions_sum *self, struct tt_text *out) {
    if (self->count == 0)
        return;
    tt_text_puts(out, self->first_date);
    if (strcmp(self->first_date, self->last_date) != 0)
        tt_text_printf(out, " .. %s", self->last_date);
    tt_text_printf(out, ", %d cores", self->cores);
    if (self->load_average >= 0)
        tt_text_printf(out, ", load average before it at most %.1f", self->load_average);
    if (self->others >= 0)
        tt_text_printf(out, ", others used at most %.2f processors", self->others);
    if (self->doubtful > 0)
        tt_text_printf(out, ", doubtful: %d of %d runs", self->doubtful, self->count);
    if (self->left_out[0])
        tt_text_printf(out, ", not done in this world: %s", self->left_out);
}
