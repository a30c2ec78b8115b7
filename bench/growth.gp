# The picture of growth: gnuplot -e "data='FILE'" growth.gp >growth.svg. The file has a block for each kind, see peers.jq.
set terminal svg size 900,300 font "sans-serif,12" background "white"
set multiplot layout 1,3
set style line 1 lc rgb "#0b6e4f" pt 7 ps 0.5
set grid
set ylabel "wall time, s"
set yrange [0:*]
unset key

set xlabel "stages"
set xtics (1,100,500)
plot data index 0 using 1:3:2:4 with yerrorlines ls 1
set xlabel "GPUs"
set xtics (0,8,64)
plot data index 1 using 1:3:2:4 with yerrorlines ls 1
set xlabel "recordings"
set xtics (10,100,1000)
plot data index 2 using 1:3:2:4 with yerrorlines ls 1
