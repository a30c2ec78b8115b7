zone = "az1-r07"
