"""How cells of tables look: links, states, times, numbers. Whatever is in them is text."""

NUMBER = "v => v === null ? '—' : v.toLocaleString()"
SIZE = (
    "v => { if (v === null) return '—'; const units = ['B', 'kB', 'MB', 'GB', 'TB']; let unit = 0;"
    " while (v >= 1000 && unit < 4) { v /= 1000; unit++; }"
    " return v.toLocaleString(undefined, {maximumFractionDigits: unit && v < 10 ? 1 : 0}) + ' ' + units[unit] }"
)
LINK = '<q-td :props="props"><a class="plain" :href="props.row.path">{{ props.value }}</a></q-td>'
STATE = '<q-td :props="props"><span :class="\'state \' + props.row.look">{{ props.value }}</span></q-td>'
TIME = '<q-td :props="props"><span :title="props.row.exactly">{{ props.value }}</span></q-td>'
OPEN = """
<q-td :props="props"><button class="open" @click="() => $parent.$emit('open', props.row)">{{ props.value }}</button>
</q-td>
"""
TIMES = """
<q-td :props="props"><span :title="props.row[props.col.name + '_exactly']">{{ props.value }}</span></q-td>
"""
"""Of a row that has several times: the exact one of `started` is `started_exactly`."""
LINKS = """
<q-td :props="props"><a v-if="props.row[props.col.name + '_path']" class="plain"
:href="props.row[props.col.name + '_path']">{{ props.value }}</a><span v-else>{{ props.value }}</span></q-td>
"""
"""Of a row that leads to several places: that of `job` is `job_path`, if there is one."""
