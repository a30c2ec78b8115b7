# The picture of growth: gnuplot -e "data='FILE'" growth.gp >growth.svg. The file has a block for each kind, see peers.jq.
set terminal svg size 900,600 font "sans-serif,12" background "white"
set multiplot layout 2,2
set style line 1 lc rgb "#0b6e4f" pt 7 ps 0.5
set grid
set ylabel "wall time, s"
set yrange [0:*]
unset key

set xlabel "stages"
set xtics (1,100,500)
plot data index 0 using 1:3:2:4 with yerrorlines ls 1
set xlabel "recordings"
set xtics (1000,10000)
plot data index 3 using 1:3:2:4 with yerrorlines ls 1
set xtics (1,16,64)
set xlabel "GPUs"
plot data index 1 using 1:3:2:4 with yerrorlines ls 1
set xlabel "network interfaces"
plot data index 2 using 1:3:2:4 with yerrorlines ls 1
